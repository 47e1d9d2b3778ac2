// Package statements writes the page of docs/compatibility that says which tests cover each numbered statement.
//
// Statements are list items of the other pages there (Read). Tests mention them in three ways (Scan): in their name
// (TestMR05_X01_OldObject), in a comment on them or inside of them ("MR-5"), and at the beginning of the name of a
// case ("MR5 with a label"). A statement may also name tests itself, or say why there is none. Index joins the two,
// and fails if a statement has no test, or if a number is mentioned that no page has.
//
// # Trade-offs
//
// The source is parsed and never compiled, so tests with build tags and those of other modules count, too, and a test
// that is skipped counts as one. A number in a helper or in code that is no test is checked to exist, but covers
// nothing.
package statements
