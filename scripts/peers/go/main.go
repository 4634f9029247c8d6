// A push worker as one would write it in Go, to measure Herald against: the same jobs, the same Redis questions, the same
// requests, the same outcomes. It knows no retries and no faults: whatever is not the good way ends it with an error.
//
// A job goes through five stages, each a goroutine or a pool of them: parse → gate (Redis, pipelined) → post (one HTTP/2
// connection, as many goroutines as streams) → publish (asynchronous confirms) → settle (multiple acknowledgements).
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	jsoniter "github.com/json-iterator/go"
	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/net/http2"
)

var (
	amqpURL   = flag.String("amqp", "amqp://guest:guest@127.0.0.1:5672/", "where RabbitMQ is")
	redisURL  = flag.String("redis", "redis://127.0.0.1:6379/0", "where Redis is")
	apnsHost  = flag.String("apns", "", "host:port of the simulator")
	queue     = flag.String("queue", "push.jobs.transactional", "queue of jobs")
	exchange  = flag.String("exchange", "push.results", "exchange of outcomes")
	keyPrefix = flag.String("key-prefix", "push:", "in front of every key in Redis")
	caFile    = flag.String("ca-file", "", "the simulator's authority, PEM")
	keyFile   = flag.String("key-file", "", "signing key, PEM (PKCS 8)")
	keyID     = flag.String("key-id", "", "id of the signing key")
	teamID    = flag.String("team-id", "", "team of the signing key")
	jobsToDo  = flag.Int("jobs", 100_000, "ends after as many jobs")
	prefetch  = flag.Int("prefetch", 2000, "unacknowledged deliveries")
	streams   = flag.Int("streams", 1000, "requests in flight")
	listen    = flag.String("listen", "", "host:port of HTTP: a gateway instead of a worker, whose jobs go to --exchange")
	apiKey    = flag.String("api-key", "", "what the gateway's clients send behind Bearer")
	remembers = flag.Bool("remember", false, "the gateway stores the ids of confirmed jobs in Redis for a day")
)

var errStopped = errors.New("the broker closed the channel")

const (
	ackDelay = 5 * time.Millisecond
	// Deliveries between the last acknowledged one and the newest; more than the broker may give.
	window = 16_384
)

// job is what a producer wrote, and what became of it on its way.
type job struct {
	ID           string          `json:"id"`
	App          string          `json:"app"`
	PushType     string          `json:"push_type"`
	Environment  string          `json:"environment"`
	To           target          `json:"to"`
	Priority     int             `json:"priority"`
	Expiration   *int64          `json:"expiration"`
	CollapseID   string          `json:"collapse_id"`
	RegisteredAt int64           `json:"token_registered_at"`
	Payload      json.RawMessage `json:"payload"`
	Meta         json.RawMessage `json:"meta"`

	tag                       uint64
	answeredKey               string
	received, sent, completed int64
	uniqueID                  string
	outcome                   []byte
}

type target struct {
	Token string `json:"token"`
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("herald-peer-go: ")
	flag.Parse()
	debug.SetGCPercent(400)
	do := run
	if *listen != "" {
		do = func() error { return serve(*listen, *exchange, *apiKey) }
	}
	if err := do(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	if *prefetch < 1 || *prefetch > window/2 || *streams < 1 || *jobsToDo < 1 {
		return fmt.Errorf("--prefetch is 1 to %d, --streams and --jobs at least 1", window/2)
	}
	consumer, jobs, err := channel()
	if err != nil {
		return err
	}
	defer consumer.Close()
	publisher, results, err := channel()
	if err != nil {
		return err
	}
	defer publisher.Close()
	gate, err := newGate(*redisURL, *keyPrefix, 4**prefetch)
	if err != nil {
		return err
	}
	pusher, err := connect()
	if err != nil {
		return err
	}
	if err := results.Confirm(false); err != nil {
		return err
	}
	confirms := results.NotifyPublish(make(chan amqp.Confirmation, 4**prefetch))
	if err := jobs.Qos(*prefetch, 0, false); err != nil {
		return err
	}
	deliveries, err := jobs.Consume(*queue, "peer", false, false, false, false, nil)
	if err != nil {
		return err
	}

	failed := make(chan error, 1)
	fail := func(err error) {
		select {
		case failed <- err:
		default:
		}
	}
	admitted := make(chan *job, 4**prefetch)
	reports := make(chan *job, 4**prefetch)
	published := make(chan uint64, 4**prefetch)
	done := make(chan struct{})
	go func() { fail(gate.write()) }()
	go func() { fail(gate.read(admitted)) }()
	go func() { fail(parse(deliveries, gate)) }()
	for i := 0; i < *streams; i++ {
		go func() {
			for j := range admitted {
				if err := pusher.post(j); err != nil {
					fail(err)
					return
				}
				j.outcome = outcome(j)
				gate.remember <- j
				reports <- j
			}
		}()
	}
	go func() { fail(publish(results, reports, published)) }()
	go func() {
		if err := settle(jobs, confirms, published); err != nil {
			fail(err)
			return
		}
		close(done)
	}()
	select {
	case err := <-failed:
		return err
	case <-done:
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return err
	}
	fmt.Printf("{\"event\":\"done\",\"jobs\":%d,\"resident_bytes\":%d}\n", *jobsToDo, usage.Maxrss*1024)
	// A quorum queue's channel may still hold acknowledgements back, and forgets them when it closes.
	if err := jobs.Cancel("peer", false); err != nil {
		return err
	}
	time.Sleep(200 * time.Millisecond)
	return nil
}

// channel opens a connection of its own: a publisher that is slowed down must not slow the consumer.
func channel() (*amqp.Connection, *amqp.Channel, error) {
	connection, err := amqp.DialConfig(*amqpURL, amqp.Config{
		Heartbeat: 10 * time.Second,
		Dial: func(network, address string) (net.Conn, error) {
			raw, err := net.DialTimeout(network, address, 5*time.Second)
			if err != nil {
				return nil, err
			}
			return gather(raw), nil
		},
	})
	if err != nil {
		return nil, nil, err
	}
	channel, err := connection.Channel()
	return connection, channel, err
}

// connect opens the one HTTP/2 connection and waits for the server's settings.
func connect() (*pusher, error) {
	authority, err := os.ReadFile(*caFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s holds no certificate", *caFile)
	}
	host, _, err := net.SplitHostPort(*apnsHost)
	if err != nil {
		return nil, err
	}
	token, err := providerToken(*keyFile, *keyID, *teamID, time.Now())
	if err != nil {
		return nil, err
	}
	raw, err := net.DialTimeout("tcp", *apnsHost, 5*time.Second)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(gather(raw), &tls.Config{RootCAs: roots, ServerName: host, NextProtos: []string{"h2"}})
	if err := secure.Handshake(); err != nil {
		return nil, err
	}
	connection, err := (&http2.Transport{DisableCompression: true, StrictMaxConcurrentStreams: true}).NewClientConn(secure)
	if err != nil {
		return nil, err
	}
	if err := connection.Ping(context.Background()); err != nil {
		return nil, err
	}
	return &pusher{connection: connection, host: *apnsHost, authorization: []string{"bearer " + token}}, nil
}

func parse(deliveries <-chan amqp.Delivery, gate *gate) error {
	for delivery := range deliveries {
		j := &job{tag: delivery.DeliveryTag, received: time.Now().UnixMilli(), Environment: "production"}
		if err := jsoniter.ConfigFastest.Unmarshal(delivery.Body, j); err != nil {
			return err
		}
		if j.ID == "" || j.App == "" || j.PushType == "" || len(j.To.Token) < 2 || len(j.Payload) == 0 {
			return fmt.Errorf("a job lacks a field: %s", delivery.Body)
		}
		gate.admit <- j
	}
	return errStopped
}

// publish sends outcomes in an order that confirms follow: the library tells them by ascending number.
func publish(results *amqp.Channel, reports <-chan *job, published chan<- uint64) error {
	for j := range reports {
		published <- j.tag
		err := results.PublishWithContext(context.Background(), *exchange, "accepted."+j.Environment+"."+j.App, false, false,
			amqp.Publishing{
				ContentType: "application/json", DeliveryMode: amqp.Persistent, MessageId: j.ID, Type: "push.outcome.v1",
				Timestamp: time.Now(), Body: j.outcome,
			})
		if err != nil {
			return err
		}
	}
	return errStopped
}

// settle acknowledges up to the last delivery before which every one has its outcome confirmed.
func settle(jobs *amqp.Channel, confirms <-chan amqp.Confirmation, published <-chan uint64) error {
	done := make([]bool, window)
	batch := uint64(*prefetch+9) / 10
	var low, acknowledged uint64
	ticker := time.NewTicker(ackDelay)
	defer ticker.Stop()
	for settled := 0; settled < *jobsToDo; {
		due := false
		select {
		case confirm, open := <-confirms:
			if !open {
				return errStopped
			}
			if !confirm.Ack {
				return errors.New("the broker refused an outcome")
			}
			done[<-published%window] = true
			for done[(low+1)%window] {
				low++
				done[low%window] = false
			}
			settled++
			if settled == 1 {
				fmt.Println(`{"event":"first"}`)
			}
			due = low-acknowledged >= batch || settled == *jobsToDo
		case <-ticker.C:
			due = low > acknowledged
		}
		if due {
			if err := jobs.Ack(low, true); err != nil {
				return err
			}
			acknowledged = low
		}
	}
	return nil
}
