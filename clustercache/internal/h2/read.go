package h2

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/net/http2"
)

// read takes what comes, until the connection is closed.
func (c *Conn) read() {
	settled := false
	for {
		f, err := c.framer.ReadFrame()
		c.heard.Store(int64(time.Since(c.began)))
		var ofStream http2.StreamError
		switch {
		case errors.As(err, &ofStream):
			c.mu.Lock()
			if s := c.streams[ofStream.StreamID]; s != nil {
				c.resetLocked(s, ofStream.Code, fmt.Errorf("the answer is no HTTP/2: %w", err))
			}
			c.unlock()
			continue
		case errors.Is(err, io.EOF):
			err = io.ErrUnexpectedEOF // of each answer that is not complete
		case err == nil:
			if _, is := f.(*http2.SettingsFrame); !is && !settled {
				err = http2.ConnectionError(http2.ErrCodeProtocol)
				break
			}
			if !settled {
				c.unlimit()
			}
			settled = true
			if err = c.countIdle(f); err == nil {
				err = c.take(f)
			}
		}
		if err != nil {
			c.close(err)
			return
		}
	}
}

// countIdle returns an error if the server floods the connection with frames that serve no stream.
func (c *Conn) countIdle(f http2.Frame) error {
	switch f := f.(type) {
	case *http2.DataFrame:
		if len(f.Data()) > 0 || f.StreamEnded() {
			return nil
		}
	case *http2.PingFrame, *http2.SettingsFrame, *http2.PriorityFrame, *http2.GoAwayFrame, *http2.UnknownFrame:
	default:
		return nil
	}
	if now := time.Now(); now.Sub(c.idleAt) > idlePeriod {
		c.idle, c.idleAt = 0, now
	}
	if c.idle++; c.idle > idleFrames {
		return errFlood
	}
	return nil
}

// unlimit notes that the server is about to say how many streams it allows, or that it has no limit.
func (c *Conn) unlimit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.maxStreams = streamsUnsaid
}

// take takes a frame. An error ends the connection.
func (c *Conn) take(f http2.Frame) error {
	c.mu.Lock()
	defer c.unlock()
	switch f := f.(type) {
	case *http2.DataFrame:
		return c.takeDataLocked(f)
	case *http2.MetaHeadersFrame:
		return c.takeHeadersLocked(f)
	case *http2.RSTStreamFrame:
		return c.takeResetLocked(f)
	case *http2.SettingsFrame:
		return c.takeSettingsLocked(f)
	case *http2.WindowUpdateFrame:
		return c.takeWindowLocked(f)
	case *http2.GoAwayFrame:
		c.takeGoAwayLocked(f)
	case *http2.PingFrame:
		if !f.IsAck() {
			return c.answerLocked(frame{kind: writePong, opaque: f.Data})
		}
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return nil
}

// answerLocked queues what the server asked for.
func (c *Conn) answerLocked(f frame) error {
	if c.asked++; c.asked > queueLimit {
		return errUnwritten
	}
	c.writeLocked(f)
	return nil
}

func (c *Conn) takeDataLocked(f *http2.DataFrame) error {
	size := f.Length
	if c.unread += size; c.unread >= connWindow/8 {
		c.writeLocked(frame{kind: writeWindow, value: c.unread})
		c.unread = 0
	}
	s, err := c.streamLocked(f.StreamID)
	if s == nil {
		return err
	}
	s.granted -= int64(size)
	switch data := f.Data(); {
	case s.granted < 0:
		c.resetLocked(s, http2.ErrCodeFlowControl, errors.New("the server sends more than it may"))
		return nil
	case s.response == nil:
		c.resetLocked(s, http2.ErrCodeProtocol, errors.New("the answer has no beginning"))
		return nil
	case s.expected >= 0 && int64(len(data)) > s.expected:
		c.resetLocked(s, http2.ErrCodeProtocol, errors.New("the answer is longer than it was said to be"))
		return nil
	case c.kept+len(data) > keptLimit && s.unread.size()+len(data) > keptAnyway:
		c.resetLocked(s, http2.ErrCodeCancel, errKept)
		return nil
	case len(data) > 0:
		s.put(data)
	}
	s.consumed += int64(int(size) - len(f.Data())) // padding
	if f.StreamEnded() {
		c.finishLocked(s)
	}
	s.wake.Broadcast()
	return nil
}

// streamLocked returns a stream, nil if it has ended.
func (c *Conn) streamLocked(id uint32) (*stream, error) {
	if s := c.streams[id]; s != nil {
		return s, nil
	}
	if id%2 == 0 || id >= c.nextID {
		return nil, http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return nil, nil
}

// finishLocked ends a stream whose answer is complete. Of what is still to be sent the server wants nothing then.
func (c *Conn) finishLocked(s *stream) {
	err := io.EOF
	if s.expected > 0 {
		err = io.ErrUnexpectedEOF
	}
	if s.sent {
		c.endLocked(s, err)
	} else {
		c.resetLocked(s, http2.ErrCodeNo, err)
	}
}

func (c *Conn) takeHeadersLocked(f *http2.MetaHeadersFrame) error {
	s, err := c.streamLocked(f.StreamID)
	if s == nil {
		return err
	}
	switch {
	case s.response != nil && f.StreamEnded(): // trailers
		c.finishLocked(s)
		return nil
	case s.response != nil:
		c.resetLocked(s, http2.ErrCodeProtocol, errors.New("the answer has headers in its midst"))
		return nil
	case f.Truncated:
		c.resetLocked(s, http2.ErrCodeProtocol, errHeader)
		return nil
	}
	response, err := responseOf(f) //nolint:bodyclose // it has none yet
	switch {
	case err != nil:
		c.resetLocked(s, http2.ErrCodeProtocol, err)
		return nil
	case response == nil: // there is more to come
		if s.informed++; s.informed > informedLimit {
			err := fmt.Errorf("there are more than %d informational answers before the answer", informedLimit)
			c.resetLocked(s, http2.ErrCodeProtocol, err)
		}
		return nil
	}
	s.response, s.expected = response, response.ContentLength
	if code := response.StatusCode; s.bare || code == http.StatusNoContent || code == http.StatusNotModified {
		s.expected = min(s.expected, 0) // it may say how long it would be
	}
	if f.StreamEnded() {
		c.finishLocked(s)
	}
	s.wake.Broadcast()
	return nil
}

func (c *Conn) takeResetLocked(f *http2.RSTStreamFrame) error {
	s, err := c.streamLocked(f.StreamID)
	switch {
	case s == nil:
		return err
	case f.ErrCode == http2.ErrCodeRefusedStream:
		c.endLocked(s, &notProcessedError{"it refused the stream"})
	default:
		c.endLocked(s, http2.StreamError{StreamID: s.id, Code: f.ErrCode, Cause: errors.New("said by the server")})
	}
	return nil
}

func (c *Conn) takeSettingsLocked(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	if f.NumSettings() > settingsLimit {
		return errSettings
	}
	err := f.ForeachSetting(func(s http2.Setting) error {
		if err := s.Valid(); err != nil {
			return err
		}
		switch s.ID {
		case http2.SettingMaxConcurrentStreams:
			c.maxStreams = s.Val
		case http2.SettingHeaderTableSize:
			c.table = &s.Val // not queued: a frame has room for thousands of them
		case http2.SettingInitialWindowSize:
			more := int64(s.Val) - c.atFirst
			c.atFirst = int64(s.Val)
			for _, s := range c.streams {
				s.window += more
				s.wake.Broadcast()
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.answerLocked(frame{kind: writeSettled})
}

func (c *Conn) takeWindowLocked(f *http2.WindowUpdateFrame) error {
	if f.StreamID == 0 {
		c.window += int64(f.Increment)
		if c.window > lastID {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
		c.feedLocked()
		return nil
	}
	s, err := c.streamLocked(f.StreamID)
	if s == nil {
		return err
	}
	if s.window += int64(f.Increment); s.window > lastID {
		c.resetLocked(s, http2.ErrCodeFlowControl, errors.New("the server allows more than there is"))
	}
	s.wake.Broadcast()
	return nil
}

// feedLocked wakes streams that wait for window of the connection.
func (c *Conn) feedLocked() {
	if c.starved == 0 {
		return
	}
	for _, s := range c.streams {
		s.wake.Broadcast()
	}
}

// takeGoAwayLocked lets streams go on that the server knows of. There are to be no others.
func (c *Conn) takeGoAwayLocked(f *http2.GoAwayFrame) {
	c.leaving = true
	for id, s := range c.streams {
		if id > f.LastStreamID {
			var err error = &notProcessedError{"it is about to close the connection"}
			if f.ErrCode != http2.ErrCodeNo && id == 1 { // it would be the same with the next connection
				err = http2.GoAwayError{LastStreamID: f.LastStreamID, ErrCode: f.ErrCode}
			}
			c.endLocked(s, err)
		}
	}
	c.emptied = c.emptied || len(c.streams)+c.reserved == 0
}
