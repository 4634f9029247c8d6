package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"golang.org/x/net/http2"
)

// pusher posts notifications over one HTTP/2 connection.
type pusher struct {
	connection    *http2.ClientConn
	host          string
	authorization []string
}

func (p *pusher) post(j *job) error {
	header := http.Header{
		"authorization":  p.authorization,
		"apns-topic":     {j.App},
		"apns-push-type": {j.PushType},
		"apns-id":        {j.ID},
	}
	if j.Priority != 0 {
		header["apns-priority"] = []string{strconv.Itoa(j.Priority)}
	}
	if j.Expiration != nil {
		header["apns-expiration"] = []string{strconv.FormatInt(*j.Expiration, 10)}
	}
	if j.CollapseID != "" {
		header["apns-collapse-id"] = []string{j.CollapseID}
	}
	request := &http.Request{
		Method: http.MethodPost,
		URL:    &url.URL{Scheme: "https", Host: p.host, Path: "/3/device/" + j.To.Token},
		Header: header, Body: io.NopCloser(bytes.NewReader(j.Payload)), ContentLength: int64(len(j.Payload)),
	}
	j.sent = time.Now().UnixMilli()
	response, err := p.connection.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		return fmt.Errorf("APNs answered %d %s", response.StatusCode, body)
	}
	j.uniqueID = response.Header.Get("apns-unique-id")
	j.completed = time.Now().UnixMilli()
	return nil
}

// providerToken signs what APNs knows the sender by.
func providerToken(file, keyID, teamID string, now time.Time) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return "", fmt.Errorf("%s is no PEM file", file)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return "", err
	}
	key, isEllipticCurve := parsed.(*ecdsa.PrivateKey)
	if !isEllipticCurve {
		return "", fmt.Errorf("%s holds a key of another kind than ES256 needs", file)
	}
	encode := base64.RawURLEncoding.EncodeToString
	unsigned := encode([]byte(fmt.Sprintf(`{"alg":"ES256","kid":%q}`, keyID))) + "." +
		encode([]byte(fmt.Sprintf(`{"iss":%q,"iat":%d}`, teamID, now.Unix())))
	digest := sha256.Sum256([]byte(unsigned))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		return "", err
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return unsigned + "." + encode(signature), nil
}

// outcome is written by hand: an encoder would read `meta` again, and cost several times as much.
func outcome(j *job) []byte {
	b := make([]byte, 0, 640)
	b = appendText(append(b, `{"version":1,"job_id":`...), j.ID)
	b = appendText(append(b, `,"apns_id":`...), j.ID)
	b = append(b, `,"apns_unique_id":`...)
	if j.uniqueID == "" {
		b = append(b, "null"...)
	} else {
		b = appendText(b, j.uniqueID)
	}
	b = append(b, `,"outcome":"accepted","status":200,"reason":null,"detail":null,"app":`...)
	b = appendText(b, j.App)
	b = appendText(append(b, `,"topic":`...), j.App)
	b = appendText(append(b, `,"push_type":`...), j.PushType)
	b = appendText(append(b, `,"environment":`...), j.Environment)
	b = appendText(append(b, `,"to":{"token":`...), j.To.Token)
	b = append(b, `},"attempts":1,"ambiguous":false,"suppressed":false,"unregistered_at":null,"received_at":`...)
	b = strconv.AppendInt(b, j.received, 10)
	b = strconv.AppendInt(append(b, `,"sent_at":`...), j.sent, 10)
	b = strconv.AppendInt(append(b, `,"completed_at":`...), j.completed, 10)
	b = append(b, `,"worker":"peer/0","meta":`...)
	if len(j.Meta) == 0 {
		b = append(b, "null"...)
	} else {
		b = append(b, j.Meta...)
	}
	return append(b, '}')
}

// appendText appends a JSON string; nearly none of ours needs escapes.
func appendText(b []byte, text string) []byte {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c < 0x20 || c >= 0x7F || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(text)
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}
