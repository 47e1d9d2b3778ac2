package h2

// unread is what came of an answer and was not read yet: nothing nearly all the time, up to streamWindow where a reader is slow. It is in
// pieces that all streams share. One buffer for each would be copied to a larger one again and again as it grows, and left to the
// collector: 2 MiB for a list of that window, from each target of a fleet that starts. The zero value is empty.
type unread struct {
	parts []part // none is empty
	start int    // of what was not read of the first
}

// part is a part of what came.
type part struct {
	data  []byte
	piece *[]byte // that has the data; nil if there was so little that it has a place of its own
}

func (u *unread) empty() bool { return len(u.parts) == 0 }

// add keeps a copy of data.
func (u *unread) add(data []byte) {
	for len(data) > 0 {
		last := len(u.parts) - 1
		if last < 0 || u.parts[last].piece == nil || len(u.parts[last].data) == cap(u.parts[last].data) {
			if last < 0 && len(data) <= smallPiece {
				u.parts = []part{{data: append([]byte(nil), data...)}}
				return
			}
			piece := newPiece()
			u.parts = append(u.parts, part{data: (*piece)[:0], piece: piece})
			last++
		}
		p := &u.parts[last]
		n := min(len(data), cap(p.data)-len(p.data))
		p.data, data = append(p.data, data[:n]...), data[n:]
	}
}

// read moves what is there to p, as much as fits.
func (u *unread) read(p []byte) (n int) {
	for n < len(p) && !u.empty() {
		first := &u.parts[0]
		copied := copy(p[n:], first.data[u.start:])
		n += copied
		if u.start += copied; u.start == len(first.data) {
			first.drop()
			u.parts, u.start = u.parts[1:], 0
		}
	}
	if u.empty() {
		u.parts = nil
	}
	return n
}

// drop forgets all of it.
func (u *unread) drop() {
	for i := range u.parts {
		u.parts[i].drop()
	}
	*u = unread{}
}

// size is how much was not read.
func (u *unread) size() (n int) {
	for _, p := range u.parts {
		n += len(p.data)
	}
	return n - u.start
}

func (p *part) drop() {
	if p.piece != nil {
		keepPiece(p.piece)
	}
	*p = part{}
}
