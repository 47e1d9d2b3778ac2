package state

// Bytes is how much is kept of all targets.
func (c *Cache) Bytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// Bound has at most so many bytes kept of all targets.
func (c *Cache) Bound(bytes int) { c.most = bytes }
