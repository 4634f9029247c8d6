package main

import (
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"
	jsoniter "github.com/json-iterator/go"
	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	bodyMaximum  = 1 << 20
	linesType    = "application/x-ndjson"
	drainTimeout = 5 * time.Second

	// Ids of confirmed jobs that go to Redis with one write.
	idsMaximum = 256
	idSeconds  = 86_400
)

// gateway takes jobs over HTTP and answers 202 once RabbitMQ confirmed them. It counts nothing, and knows one key.
type gateway struct {
	jobs          *amqp.Channel
	exchange      string
	authorization []byte
	// Confirmed jobs, by which a client can ask for them from its answer on; nil: they are not stored.
	confirmed chan confirmedJob
}

type confirmedJob struct {
	id string
	// Closed once the id was written to Redis; nil: nobody waits.
	written chan struct{}
}

// serve runs the gateway until SIGTERM. It prints `{"event":"ready","port":…}` once it listens.
func serve(address, exchange, key string) error {
	connection, jobs, err := channel()
	if err != nil {
		return err
	}
	defer connection.Close()
	if err := jobs.Confirm(false); err != nil {
		return err
	}
	returned := jobs.NotifyReturn(make(chan amqp.Return, 1))
	closed := connection.NotifyClose(make(chan *amqp.Error, 1))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	g := &gateway{jobs: jobs, exchange: exchange, authorization: []byte("Bearer " + key)}
	failed := make(chan error, 1)
	if *remembers {
		connection, err := redis.DialURL(*redisURL)
		if err != nil {
			return err
		}
		defer connection.Close()
		g.confirmed = make(chan confirmedJob, 64*idsMaximum)
		go func() { failed <- g.store(connection) }()
	}
	routes := http.NewServeMux()
	routes.HandleFunc("/v1/jobs", g.post)
	routes.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	server := &http.Server{Handler: routes, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 75 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	fmt.Printf("{\"event\":\"ready\",\"port\":%d}\n", listener.Addr().(*net.TCPAddr).Port)

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	select {
	case <-signals:
		limit, cancel := context.WithTimeout(context.Background(), drainTimeout)
		defer cancel()
		return server.Shutdown(limit)
	case message := <-returned:
		return fmt.Errorf("%s has no queue for %s", message.Exchange, message.RoutingKey)
	case err := <-closed:
		return err
	case err := <-failed:
		return err
	case err := <-ended:
		return err
	}
}

func (g *gateway) post(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.Error(w, "POST only", http.StatusMethodNotAllowed)
		return
	}
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), g.authorization) != 1 {
		http.Error(w, "no valid key", http.StatusUnauthorized)
		return
	}
	body, err := read(w, r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if r.Header.Get("Content-Type") == linesType {
		g.postLines(w, body)
		return
	}
	id, err := check(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	confirmation, err := g.publish(id, body)
	if err != nil || !confirmation.Wait() {
		http.Error(w, "RabbitMQ did not confirm it", http.StatusServiceUnavailable)
		return
	}
	g.remember(id)
	answer := append(appendText(append(make([]byte, 0, 64), `{"id":`...), id), '}')
	w.Header()["Location"] = []string{"/v1/jobs/" + id}
	reply(w, http.StatusAccepted, "application/json", answer)
}

// postLines publishes every line before it waits for the first confirm.
func (g *gateway) postLines(w http.ResponseWriter, body []byte) {
	type line struct {
		id           string
		err          error
		confirmation *amqp.DeferredConfirmation
	}
	var lines []line
	for len(body) > 0 {
		text := body
		if end := bytes.IndexByte(body, '\n'); end >= 0 {
			text, body = body[:end], body[end+1:]
		} else {
			body = nil
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		var next line
		if next.id, next.err = check(text); next.err == nil {
			if next.confirmation, next.err = g.publish(next.id, text); next.err != nil {
				http.Error(w, "RabbitMQ did not take it", http.StatusServiceUnavailable)
				return
			}
		}
		lines = append(lines, next)
	}
	status := http.StatusBadRequest
	answer := make([]byte, 0, 80*len(lines))
	var confirmed []string
	for index, line := range lines {
		answer = strconv.AppendInt(append(answer, `{"index":`...), int64(index), 10)
		switch {
		case line.err != nil:
			answer = appendText(append(answer, `,"status":400,"error":`...), line.err.Error())
		case line.confirmation.Wait():
			status = http.StatusAccepted
			confirmed = append(confirmed, line.id)
			answer = appendText(append(answer, `,"status":202,"id":`...), line.id)
		default:
			answer = append(answer, `,"status":503`...)
		}
		answer = append(answer, "}\n"...)
	}
	g.remember(confirmed...)
	reply(w, status, linesType, answer)
}

// remember returns once the ids are on their way to Redis: whoever has an answer may ask any gateway for the job.
func (g *gateway) remember(ids ...string) {
	if g.confirmed == nil || len(ids) == 0 {
		return
	}
	written := make(chan struct{})
	for _, id := range ids[:len(ids)-1] {
		g.confirmed <- confirmedJob{id: id}
	}
	g.confirmed <- confirmedJob{ids[len(ids)-1], written}
	<-written
}

// store writes the ids of confirmed jobs to Redis, as many at once as there are.
func (g *gateway) store(connection redis.Conn) error {
	sent := make(chan int, 64)
	failed := make(chan error, 1)
	go func() {
		for count := range sent {
			for ; count > 0; count-- {
				if _, err := connection.Receive(); err != nil {
					failed <- err
					return
				}
			}
		}
	}()
	var waiting []chan struct{}
	for job := range g.confirmed {
		count := 0
		for more := true; more; {
			if err := connection.Send("SET", *keyPrefix+"job:"+job.id, "", "EX", idSeconds); err != nil {
				return err
			}
			if job.written != nil {
				waiting = append(waiting, job.written)
			}
			count++
			if count == idsMaximum {
				break
			}
			select {
			case job = <-g.confirmed:
			default:
				more = false
			}
		}
		if err := connection.Flush(); err != nil {
			return err
		}
		for _, written := range waiting {
			close(written)
		}
		waiting = waiting[:0]
		select {
		case sent <- count:
		case err := <-failed:
			return err
		}
	}
	return nil
}

func (g *gateway) publish(id string, body []byte) (*amqp.DeferredConfirmation, error) {
	return g.jobs.PublishWithDeferredConfirmWithContext(context.Background(), g.exchange, "transactional", true, false,
		amqp.Publishing{
			ContentType: "application/json", DeliveryMode: amqp.Persistent, MessageId: id, Timestamp: time.Now(), Body: body,
		})
}

// read takes the whole body, into one piece of memory where its length is known.
func read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength < 0 || r.ContentLength > bodyMaximum {
		return io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMaximum))
	}
	body := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, body)
	return body, err
}

// check wants an id, an app, a device token and a payload.
func check(body []byte) (string, error) {
	var j job
	if err := jsoniter.ConfigFastest.Unmarshal(body, &j); err != nil {
		return "", err
	}
	if j.ID == "" || j.App == "" || j.PushType == "" || len(j.To.Token) < 2 || len(j.Payload) == 0 {
		return "", errors.New("a job lacks a field")
	}
	return j.ID, nil
}

func reply(w http.ResponseWriter, status int, contentType string, body []byte) {
	header := w.Header()
	header["Content-Type"] = []string{contentType}
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		log.Print(err)
	}
}
