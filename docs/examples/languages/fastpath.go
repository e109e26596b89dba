// Publishes and subscribes over plain HTTP with Go's standard library alone.
//
//	go run fastpath.go subscribe SUBJECT...       prints every event as a line: its name and its JSON
//	go run fastpath.go publish SUBJECT CONTENT    prints the server's answer
//
// SITE is the address (http://127.0.0.1:8800), TOKEN the token if there is one, SILENCE after how many seconds without
// a byte a stream counts as lost (60; the server sends at least a comment every FASTPATH_PING_SECONDS, 25).
package main

import (
	"bufio"
	"bytes"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// refused is an error after which it would not help to ask again.
type refused string

func (reason refused) Error() string { return "refused: " + string(reason) }

type client struct {
	site    string
	token   string
	silence time.Duration
}

// handle is what the program is for: here it prints.
func handle(name, data string) {
	fmt.Println(name, data)
	// message: json.Unmarshal([]byte(data), &message), with Subject, Content, Fields, Epoch and Seq
	// resynchronised: messages of this subject are missing. Its snapshot follows: begin anew with that.
	// denied, revoked: no right to the subject at present; it begins by itself when the right comes.
}

// backoff waits longer after each failure, up to 30 s, and by chance, so that not all clients come back at once.
type backoff struct{ failures int }

func (b *backoff) wait(reason error) {
	seconds := min(30, float64(int(1)<<min(b.failures, 5))) * (0.5 + rand.Float64()/2)
	b.failures++
	fmt.Fprintf(os.Stderr, "%v; again in %.1f s\n", reason, seconds)
	time.Sleep(time.Duration(seconds * float64(time.Second)))
}

// ask returns an answer of 200, whose body the caller closes.
func (c client) ask(request *http.Request) (*http.Response, error) {
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil || answer.StatusCode == http.StatusOK {
		return answer, err
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	reason := fmt.Sprintf("%d %s", answer.StatusCode, text)
	if answer.StatusCode >= 500 || answer.StatusCode == 408 || answer.StatusCode == 429 {
		return nil, errors.New(reason)
	}
	return nil, refused(reason)
}

// follow reads one stream to its end, which always has a reason; place is the id of the last event that was handled.
// How events read: https://html.spec.whatwg.org/multipage/server-sent-events.html
func (c client) follow(query string, place *string, again *backoff) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	alarm := time.AfterFunc(c.silence, func() { cancel(fmt.Errorf("nothing came for %v", c.silence)) })
	defer alarm.Stop()
	request, err := http.NewRequestWithContext(ctx, "GET", c.site+"/events?"+query, nil)
	if err != nil {
		return refused(err.Error())
	}
	if *place != "" {
		request.Header.Set("Last-Event-ID", *place)
	}
	answer, err := c.ask(request)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	defer answer.Body.Close()
	lines := bufio.NewReader(answer.Body)
	name, data, id := "message", "", ""
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		alarm.Reset(c.silence)
		line = strings.TrimRight(line, "\r\n")
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			name = value
		case "data":
			data += value
		case "id":
			id = value
		}
		if line != "" {
			continue
		}
		if name == "connected" {
			again.failures = 0
		}
		if data != "" {
			handle(name, data)
			if id != "" {
				*place = id
			}
		}
		if name == "close" {
			var why struct{ Code int }
			if err := json.Unmarshal([]byte(data), &why); err == nil && why.Code >= 4500 {
				return refused(data)
			}
			return errors.New("closed: " + data)
		}
		name, data, id = "message", "", ""
	}
}

func (c client) subscribe(subjects []string) error {
	query := url.Values{"subject": subjects}.Encode()
	place, again := "", backoff{}
	for {
		err := c.follow(query, &place, &again)
		if isRefused(err) {
			return err
		}
		again.wait(err)
	}
}

// post sends one publication and returns its status: one of protocol.md 4.4.
func (c client) post(body []byte, key string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.silence)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "POST", c.site+"/api/publish", bytes.NewReader(body))
	if err != nil {
		return "", refused(err.Error())
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key)
	answer, err := c.ask(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", err
	}
	var told struct{ Results []struct{ Status string } }
	if err := json.Unmarshal(text, &told); err != nil || len(told.Results) != 1 {
		return "", refused("no answer of a sidecar: " + string(text))
	}
	fmt.Println(string(text))
	return told.Results[0].Status, nil
}

// publish asks with the same key each time: whatever became of an answer, the message is stored once.
func (c client) publish(subject, content string) error {
	body, err := json.Marshal(map[string]string{"subject": subject, "content": content})
	if err != nil {
		return err
	}
	random := make([]byte, 16)
	if _, err := crand.Read(random); err != nil {
		return err
	}
	key, again := fmt.Sprintf("%x", random), backoff{}
	for {
		status, err := c.post(body, key)
		switch {
		case isRefused(err):
			return err
		case err != nil:
			again.wait(err)
		case status == "ok", status == "stale": // stale: an earlier attempt has stored it, long ago
			return nil
		case status == "unavailable", status == "not_ready":
			again.wait(errors.New(status))
		default:
			return refused(status)
		}
	}
}

func isRefused(err error) bool {
	var reason refused
	return errors.As(err, &reason)
}

func main() {
	seconds, err := strconv.ParseFloat(os.Getenv("SILENCE"), 64)
	if err != nil {
		seconds = 60
	}
	c := client{os.Getenv("SITE"), os.Getenv("TOKEN"), time.Duration(seconds * float64(time.Second))}
	if c.site == "" {
		c.site = "http://127.0.0.1:8800"
	}
	switch {
	case len(os.Args) > 2 && os.Args[1] == "subscribe":
		err = c.subscribe(os.Args[2:])
	case len(os.Args) == 4 && os.Args[1] == "publish":
		err = c.publish(os.Args[2], os.Args[3])
	default:
		err = errors.New("usage: fastpath subscribe SUBJECT... | publish SUBJECT CONTENT")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
