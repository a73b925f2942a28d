package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

const maxCustomFile = 1 << 20

// ReadCustom reads agents from a JSON file:
//
//	{"agents": {"my-agent": {"command": ["my-agent", "--acp"], "env": {"KEY": "value"}}}}
//
// Unknown names are errors.
func ReadCustom(file string) ([]Custom, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("agents: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxCustomFile+1))
	if err != nil {
		return nil, fmt.Errorf("agents: %w", err)
	}
	if len(text) > maxCustomFile {
		return nil, fmt.Errorf("agents: %s has more than %d bytes", file, maxCustomFile)
	}
	list, err := parseCustom(text)
	if err != nil {
		return nil, fmt.Errorf("agents: %s: %w", file, err)
	}
	return list, nil
}

func parseCustom(text []byte) ([]Custom, error) {
	var content struct {
		Agents map[string]Custom `json:"agents"`
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&content); err != nil {
		return nil, fmt.Errorf(`must be {"agents": {"NAME": {"command": ["PROGRAM", "ARGUMENT"]}}}: %w`, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("has something behind the object")
	}
	list := make([]Custom, 0, len(content.Agents))
	for id, c := range content.Agents {
		c.ID = id
		list = append(list, c)
	}
	if _, err := withCustom(nil, list); err != nil {
		return nil, err
	}
	return list, nil
}
