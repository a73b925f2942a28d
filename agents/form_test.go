package agents_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents"
)

const formParams = `{"mode":"form","message":"Please.","requestedSchema":{"type":"object","properties":{
	"z":{"type":"string","title":"One","oneOf":[{"const":"a","title":"A"},{"const":"b"}]},
	"z_custom":{"type":"string"},
	"many":{"type":"array","description":"Which?","items":{"anyOf":[{"const":"x","title":"X"},{"const":"y","title":"Y"}]}},
	"size":{"type":"string","enum":["s","l"],"enumNames":["Small","Large"]},
	"count":{"type":"integer"},"share":{"type":"number"},"sure":{"type":"boolean"},"name":{"type":"string"}}}}`

// TestForm answers a form with values, labels and own words.
func TestForm(t *testing.T) {
	t.Parallel()
	form, err := agents.ParseForm(json.RawMessage(formParams))
	if err != nil || len(form.Questions) != 7 || form.Questions[0].Custom != "z_custom" || form.Questions[1].Key != "many" || form.Prompt() != "Please.\n\nOne\n\nWhich?" {
		t.Fatalf("%+v, %v", form, err)
	}
	for answers, want := range map[string]string{
		`[["B"],["X","y"],["large"],["3"],["0.5"],["Yes"],["Ann"]]`: `{"action":"accept","content":{"count":3,"many":["x","y"],"name":"Ann","share":0.5,"size":"l","sure":true,"z":"b"}}`,
		`[["mine"]]`:                 `{"action":"accept","content":{"z_custom":"mine"}}`,
		`[["a","with a note"]]`:      `{"action":"accept","content":{"z":"a","z_custom":"with a note"}}`,
		`[]`:                         `{"action":"accept","content":{}}`,
		`[["a","b"]]`:                "answers of question 1: it takes one answer",
		`[[],["z"]]`:                 `answers of question 2: there is no option "z"; there are "X", "Y"`,
		`[[],[],[],["many"]]`:        `answers of question 4: "many" is not a whole number`,
		`[[],[],[],[],["NaN"]]`:      `answers of question 5: "NaN" is not a number`,
		`[[],[],[],[],[],["maybe"]]`: `answers of question 6: there is no option "maybe"; there are "Yes", "No"`,
		`[[],[],[],[],[],[],[],[]]`:  "must hold a list for each of 7 questions, not 8",
	} {
		var given [][]string
		if err := json.Unmarshal([]byte(answers), &given); err != nil {
			t.Fatal(err)
		}
		got, err := form.Answer(given)
		if bad, ok := errors.AsType[*agents.InvalidError](err); ok {
			if !strings.Contains(bad.Error(), want) {
				t.Errorf("%s: %v, want %s", answers, err, want)
			}
		} else if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", answers, got, err, want)
		}
	}
	text, accepted := form.Answered(json.RawMessage(`{"action":"accept","content":{"z":"a","many":["x","y"],"sure":true}}`))
	if !accepted || !strings.HasPrefix(text, "A\nX, Y\n") {
		t.Errorf("the answers are %q, %t", text, accepted)
	}
	for _, result := range []string{`{"action":"decline"}`, `null`, `[]`, ``} {
		if _, accepted := form.Answered(json.RawMessage(result)); accepted {
			t.Errorf("%q accepts", result)
		}
	}
	for _, bad := range []string{`[]`, `{"mode":"url"}`, `{"requestedSchema":{"properties":[]}}`, `{"requestedSchema":{"properties":{"a":1}}}`} {
		if form, err := agents.ParseForm(json.RawMessage(bad)); err == nil {
			t.Errorf("%s: %+v", bad, form)
		}
	}
}

// TestFormOption: an answer never chooses another option of a form than the one that it names.
func TestFormOption(t *testing.T) {
	t.Parallel()
	for schema, answers := range map[string]map[string][2]string{ // the chosen values: by value first, and by label first
		`"enum":["a","A"]`:                                                      {"a": {"a", "a"}, "A": {"A", "A"}},
		`"enum":["1","2"],"enumNames":["2","1"]`:                                {"1": {"1", "2"}, "2": {"2", "1"}},
		`"enum":["x","y","z"],"enumNames":["Same","Same","same"]`:               {"Same": {}, "same": {"z", "z"}, "SAME": {}, "x": {"x", "x"}},
		`"enum":["x","x","No"],"enumNames":["Yes","YES","yes and no"]`:          {"yes": {"x", "x"}, "no": {}, "YES AND NO": {"No", "No"}},
		`"oneOf":[{"const":"all","title":"One"},{"const":"One","title":"All"}]`: {"One": {"One", "all"}, "all": {"all", "all"}, "ALL": {"One", "One"}},
	} {
		form, err := agents.ParseForm(json.RawMessage(`{"requestedSchema":{"properties":{"k":{"type":"string",` + schema + `}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		for answer, want := range answers {
			for i, choose := range []func([][]string) (json.RawMessage, error){form.Answer, form.AnswerLabels} {
				got, err := choose([][]string{{answer}})
				bad, refused := errors.AsType[*agents.InvalidError](err)
				switch {
				case want[i] == "" && refused && bad.Field == "answers":
				case want[i] != "" && string(got) == `{"action":"accept","content":{"k":"`+want[i]+`"}}`:
				default:
					t.Errorf("%s: %q (%d) chooses %s, %v, want %q", schema, answer, i, got, err, want[i])
				}
			}
		}
	}
}
