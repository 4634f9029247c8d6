package main

import (
	"bufio"
	"net"
	"sync"
)

// gatherConn joins small writes: what is written while the last write is under way leaves with the next one.
//
// amqp091-go writes each frame by itself (three to a publish) and x/net/http2 each request's headers and body; without this
// the worker spends much of its time in write(2).
type gatherConn struct {
	net.Conn
	reader *bufio.Reader

	mutex   sync.Mutex
	changed sync.Cond
	waiting []byte
	spare   []byte
	failure error
}

// gatherMaximum bounds what waits: a peer that reads slowly holds the writer up.
const gatherMaximum = 1 << 20

func gather(raw net.Conn) *gatherConn {
	c := &gatherConn{Conn: raw, reader: bufio.NewReaderSize(raw, 64<<10)}
	c.changed.L = &c.mutex
	go c.flush()
	return c
}

func (c *gatherConn) Read(p []byte) (int, error) { return c.reader.Read(p) }

func (c *gatherConn) Write(p []byte) (int, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for len(c.waiting) > gatherMaximum && c.failure == nil {
		c.changed.Wait()
	}
	if c.failure != nil {
		return 0, c.failure
	}
	if len(c.waiting) == 0 {
		c.changed.Broadcast()
	}
	c.waiting = append(c.waiting, p...)
	return len(p), nil
}

func (c *gatherConn) Close() error {
	c.mutex.Lock()
	if c.failure == nil {
		c.failure = net.ErrClosed
	}
	last := c.waiting
	c.waiting = nil
	c.changed.Broadcast()
	c.mutex.Unlock()
	if len(last) > 0 {
		_, _ = c.Conn.Write(last)
	}
	return c.Conn.Close()
}

func (c *gatherConn) flush() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for c.failure == nil {
		if len(c.waiting) == 0 {
			c.changed.Wait()
			continue
		}
		batch := c.waiting
		c.waiting = c.spare[:0]
		c.mutex.Unlock()
		_, err := c.Conn.Write(batch)
		c.mutex.Lock()
		c.spare = batch
		c.changed.Broadcast()
		if err != nil && c.failure == nil {
			c.failure = err
		}
	}
}
