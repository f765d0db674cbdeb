// Reads a file with histories of one znode, one JSON array a line, and says of each what Porcupine says: Ok, Illegal or Unknown.
//
// The model is written from the description of the operations, not from the checker that it is compared with.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

// An operation and its answer, as the histories have them.
type operation struct {
	Began int64  `json:"began"`
	Ended *int64 `json:"ended"` // none: nobody knows whether it was done
	Ask   string `json:"ask"`   // create, set, delete, read
	// The version that was asked for, -1 for any, and the value.
	Version int32  `json:"version"`
	Value   string `json:"value"`
	Answer  string `json:"answer"` // is, version, done, nonode, exists, badversion, unknown
	// The version and the value in the answer.
	SeenVersion int32  `json:"seen_version"`
	SeenValue   string `json:"seen_value"`
}

type znode struct {
	exists  bool
	version int32
	value   string
}

// What the server does: the state after the operation, and its answer.
func serve(state znode, asked operation) (znode, string) {
	if asked.Ask == "create" {
		if state.exists {
			return state, "exists"
		}
		return znode{true, 0, asked.Value}, "done"
	}
	if !state.exists {
		return state, "nonode"
	}
	if asked.Ask == "read" {
		return state, "is"
	}
	if asked.Version != -1 && asked.Version != state.version {
		return state, "badversion"
	}
	if asked.Ask == "set" {
		return znode{true, state.version + 1, asked.Value}, "version"
	}
	return znode{}, "done"
}

func step(before interface{}, input interface{}, _ interface{}) []interface{} {
	state, asked := before.(znode), input.(operation)
	after, answer := serve(state, asked)
	if asked.Answer == "unknown" {
		// It was done now, or never.
		return []interface{}{after, state}
	}
	seen := asked.Answer == "is" || asked.Answer == "version"
	wrongVersion := seen && asked.SeenVersion != after.version
	wrongValue := asked.Answer == "is" && asked.SeenValue != after.value
	if answer != asked.Answer || wrongVersion || wrongValue {
		return nil
	}
	return []interface{}{after}
}

func main() {
	model := (&porcupine.NondeterministicModel{
		Init: func() []interface{} { return []interface{}{znode{}} },
		Step: step,
	}).ToModel()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: porcupine FILE")
		os.Exit(2)
	}
	file, err := os.Open(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var history []operation
		if err := json.Unmarshal(lines.Bytes(), &history); err != nil {
			fmt.Fprintln(os.Stderr, "history:", err)
			os.Exit(2)
		}
		var operations []porcupine.Operation
		for client, it := range history {
			ended := int64(math.MaxInt64)
			if it.Ended != nil {
				ended = *it.Ended
			}
			operations = append(operations, porcupine.Operation{
				ClientId: client, Input: it, Call: it.Began, Output: nil, Return: ended,
			})
		}
		fmt.Println(porcupine.CheckOperationsTimeout(model, operations, time.Minute))
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "histories:", err)
		os.Exit(2)
	}
}
