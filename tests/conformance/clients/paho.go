// What Eclipse Paho's client for Go sees of a broker: paho URL; a line of JSON, of what it was told.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

const patience = 60 * time.Second

type message struct {
	Topic, Payload string
	QoS            byte
	Retained       bool
}

func done(token mqtt.Token) {
	if !token.WaitTimeout(patience) || token.Error() != nil {
		fmt.Fprintln(os.Stderr, "not done:", token.Error())
		os.Exit(1)
	}
}

func open(url, id string, clean bool, heard chan message) mqtt.Client {
	options := mqtt.NewClientOptions().AddBroker(url).SetClientID(id).SetCleanSession(clean).SetAutoReconnect(false)
	options.SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) {
		heard <- message{m.Topic(), string(m.Payload()), m.Qos(), m.Retained()}
	})
	client := mqtt.NewClient(options)
	done(client.Connect())
	return client
}

func next(heard chan message, count int) []message {
	messages := []message{}
	for len(messages) < count {
		select {
		case one := <-heard:
			messages = append(messages, one)
		case <-time.After(patience):
			fmt.Fprintln(os.Stderr, "nothing more after", messages)
			os.Exit(1)
		}
	}
	return messages
}

func main() {
	url := os.Args[1]
	told := map[string][]message{}
	heard, others := make(chan message, 100), make(chan message, 100)
	reader, writer := open(url, "go-reader", true, heard), open(url, "go-writer", true, others)
	done(reader.Subscribe("go/+", 1, nil))
	for qos := byte(0); qos < 3; qos++ {
		done(writer.Publish(fmt.Sprintf("go/%d", qos), qos, false, fmt.Sprint(qos)))
	}
	told["live"] = next(heard, 3)

	done(writer.Publish("gokept/a", 1, true, "kept"))
	// By the client that published it: another worker may hear of it a moment later, and then it is live there.
	done(writer.Subscribe("gokept/#", 1, nil))
	told["retained"] = next(others, 1)
	done(writer.Publish("gokept/a", 1, true, ""))

	away := open(url, "go-away", false, make(chan message, 100))
	done(away.Subscribe("gomissed/a", 1, nil))
	away.Disconnect(1000)
	done(writer.Publish("gomissed/a", 1, false, "while away"))
	back := make(chan message, 100)
	open(url, "go-away", false, back)
	told["missed"] = next(back, 1)
	text, _ := json.Marshal(told)
	fmt.Println(string(text))
}
