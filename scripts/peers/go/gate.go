package main

import (
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/gomodule/redigo/redis"
)

// Answered before? Dead? Over its rate? One call for each job, three keys. 0: send it.
const admission = `
local seen = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3])
if seen[1] then return seen[1] end
if seen[2] and tonumber(ARGV[1]) <= tonumber(seen[2]) then return -tonumber(seen[2]) end
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local next = math.max(now, tonumber(seen[3]) or 0)
if next - now > tonumber(ARGV[3]) then return math.ceil((next - now - ARGV[3]) / 1000) end
next = next + ARGV[2]
redis.call('SET', KEYS[3], string.format('%.0f', next), 'PX', math.ceil((next - now) / 1000))
return 0`

// Ten at once, then one a second.
const intervalMicroseconds, toleranceMicroseconds = 1_000_000, 9_000_000

const rememberSeconds = 6 * 3600

// gate is one connection to Redis: one goroutine writes commands, flushing when none waits, another reads their replies.
type gate struct {
	admit    chan *job
	remember chan *job

	connection redis.Conn
	script     *redis.Script
	prefix     string
	// What replies belong to; nil: a SET's.
	sent chan *job
}

func newGate(url, prefix string, capacity int) (*gate, error) {
	connection, err := redis.DialURL(url)
	if err != nil {
		return nil, err
	}
	script := redis.NewScript(3, admission)
	if err := script.Load(connection); err != nil {
		return nil, err
	}
	return &gate{
		admit: make(chan *job, capacity), remember: make(chan *job, capacity), connection: connection, script: script,
		prefix: prefix, sent: make(chan *job, 4*capacity),
	}, nil
}

func (g *gate) write() error {
	for {
		var err error
		select {
		case j := <-g.admit:
			err = g.sendAdmission(j)
		case j := <-g.remember:
			err = g.sendMemory(j)
		default:
			if err = g.connection.Flush(); err != nil {
				return err
			}
			select {
			case j := <-g.admit:
				err = g.sendAdmission(j)
			case j := <-g.remember:
				err = g.sendMemory(j)
			}
		}
		if err != nil {
			return err
		}
	}
}

func (g *gate) sendAdmission(j *job) error {
	hash := fnv.New128a()
	hash.Write([]byte(j.Environment))
	hash.Write([]byte(j.App))
	hash.Write([]byte(j.To.Token))
	device := g.prefix + "{" + base64.RawURLEncoding.EncodeToString(hash.Sum(nil)) + "}:"
	j.answeredKey = device + "d:" + j.ID
	g.sent <- j
	return g.script.SendHash(
		g.connection, j.answeredKey, device+"x", device+"r", j.RegisteredAt, intervalMicroseconds, toleranceMicroseconds)
}

func (g *gate) sendMemory(j *job) error {
	g.sent <- nil
	value := strconv.AppendInt(append(make([]byte, 0, 64), "accepted 200 1 "...), j.sent, 10)
	value = strconv.AppendInt(append(value, ' '), j.completed, 10)
	return g.connection.Send("SET", j.answeredKey, value, "EX", rememberSeconds)
}

func (g *gate) read(admitted chan<- *job) error {
	for j := range g.sent {
		reply, err := g.connection.Receive()
		if err != nil {
			return err
		}
		if j == nil {
			continue
		}
		if reply != int64(0) {
			return fmt.Errorf("job %s is not to be sent: %v", j.ID, reply)
		}
		admitted <- j
	}
	return nil
}
