// Package canon keeps one copy of what many hold: a thousand targets have nearly the same objects, so that their
// inventories are the same names, kinds, labels and annotations a thousand times.
//
// A Table knows texts and maps that were seen lately, and answers with the copy that it knows. What is not asked for
// during the time in which half as much as it may hold is seen anew, or for some minutes, is forgotten, which costs no
// more than a second copy from then on. So it is bounded, needs no one to give anything back, and holds little that
// nobody else holds: what targets that are gone had is gone with the next things that are seen.
package canon
