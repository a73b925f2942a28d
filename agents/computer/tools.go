package computer

import (
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// tool is a tool in the list. All names in actions can be called as well.
type tool struct {
	name, title, description string
	reads                    bool // changes nothing
	closed                   bool // has no effect outside of the desktop
	required                 []string
	parameters               []string // names in schemas
	own                      map[string]any
}

type object = map[string]any

func coordinate(description string) object {
	return object{"type": "array", "items": object{"type": "integer"}, "minItems": 2, "maxItems": 2, "description": description}
}

// schemas describe the parameters that several tools have.
var schemas = map[string]any{
	"coordinate":       coordinate("[x, y] in pixels of the latest screenshot"),
	"start_coordinate": coordinate("[x, y] where the button is pressed"),
	"path":             object{"type": "array", "items": coordinate("[x, y]"), "minItems": 2, "description": "Instead of start_coordinate and coordinate: all points of the way"},
	"button":           object{"type": "string", "enum": []string{"left", "right", "middle", "back", "forward"}, "description": "left when left out"},
	"count":            object{"type": "integer", "minimum": 1, "maximum": 100, "description": "2 for a double click"},
	"modifiers":        object{"type": "string", "description": `Keys held meanwhile: "ctrl", "ctrl+shift", ...`},
	"screenshot":       object{"type": "boolean", "description": "false: answer without a screenshot"},
	"scroll_direction": object{"type": "string", "enum": []string{"up", "down", "left", "right"}},
	"scroll_amount":    object{"type": "integer", "minimum": 1, "maximum": 1000, "description": "Clicks of the wheel; 3 when left out"},
	"region": object{
		"type": "array", "items": object{"type": "integer"}, "minItems": 4, "maxItems": 4,
		"description": "[x0, y0, x1, y1] in pixels of the latest screenshot",
	},
	"duration": object{"type": "number", "minimum": 0, "maximum": maxSeconds, "description": "Seconds"},
}

func text(description string) object { return object{"type": "string", "description": description} }

var tools = []tool{
	{
		name: "screenshot", title: "Take a screenshot", reads: true, closed: true,
		description: "Shows the screen, once it is still, in {size} pixels.",
	},
	{
		name: "zoom", title: "Look closely", reads: true, closed: true, required: []string{"region"}, parameters: []string{"region"},
		description: "Shows a part of the screen at full resolution. Coordinates for other tools remain in the whole screenshot.",
	},
	{
		name: "click", title: "Click", parameters: []string{"coordinate", "button", "count", "modifiers", "screenshot"},
		description: "Clicks at a position in the {size} screenshot, or where the pointer is.",
	},
	{
		name: "drag", title: "Drag", parameters: []string{"start_coordinate", "coordinate", "path", "button", "modifiers", "screenshot"},
		description: "Presses a button at one position, moves, and releases it at another.",
	},
	{
		name: "move", title: "Move the pointer", closed: true, required: []string{"coordinate"}, parameters: []string{"coordinate", "screenshot"},
		description: "Moves the pointer without clicking.",
	},
	{
		name: "scroll", title: "Scroll", closed: true, required: []string{"scroll_direction"},
		parameters:  []string{"coordinate", "scroll_direction", "scroll_amount", "modifiers", "screenshot"},
		description: "Turns the mouse wheel at a position, or where the pointer is.",
	},
	{
		name: "type", title: "Type text", required: []string{"text"}, parameters: []string{"screenshot"},
		own:         object{"text": text("Any Unicode text; a line feed presses Return")},
		description: "Types text into the window that has the focus.",
	},
	{
		name: "key", title: "Press keys", required: []string{"text"}, parameters: []string{"screenshot"},
		own:         object{"text": text(`A key or chord with xdotool's names, such as "Return", "ctrl+s", "alt+F4"; several with spaces between are pressed one after another`)},
		description: "Presses and releases a key or a chord.",
	},
	{
		name: "hold_key", title: "Hold a key", required: []string{"text"}, parameters: []string{"duration", "screenshot"},
		own:         object{"text": text("A key or chord")},
		description: "Holds a key or a chord down for some seconds, 1 when left out.",
	},
	{
		name: "wait", title: "Wait", reads: true, closed: true, parameters: []string{"duration", "screenshot"},
		description: "Waits for that long or, without duration, until the screen is still, at most 10 s.",
	},
	{
		name: "cursor_position", title: "Tell where the pointer is", reads: true, closed: true,
		description: "Tells the pointer's position in the {size} screenshot.",
	},
	{
		name: "windows", title: "List and arrange windows", parameters: []string{"coordinate", "screenshot"},
		own: object{
			"action": object{"type": "string", "enum": []string{"list", "focus", "close", "move", "resize", "maximise", "restore", "minimise"}, "description": "list when left out"},
			"window": object{"type": "integer", "description": "Its number in the list"},
			"width":  object{"type": "integer", "description": "For resize"},
			"height": object{"type": "integer", "description": "For resize"},
		},
		description: "Lists the windows, or focuses, closes, moves (to coordinate), resizes, maximises, restores or minimises one.",
	},
	{
		name: "clipboard_get", title: "Read the clipboard", reads: true, closed: true,
		own:         object{"kind": object{"type": "string", "enum": []string{"text", "image"}, "description": "text when left out"}},
		description: "Returns what is on the clipboard.",
	},
	{
		name: "clipboard_set", title: "Fill the clipboard", closed: true, required: []string{"text"},
		own:         object{"text": text("What shall be there")},
		description: "Puts text on the clipboard.",
	},
	{
		name: "launch", title: "Start a program", required: []string{"app"}, parameters: []string{"screenshot"},
		own: object{
			"app":  text("A program's name, or its path"),
			"args": object{"type": "array", "items": object{"type": "string"}},
			"wait": object{"type": "boolean", "description": "false: do not wait for its window"},
		},
		description: "Starts a program on the desktop and waits for its first window. There is no shell.",
	},
	{
		name: "open", title: "Open a file or URL", required: []string{"target"}, parameters: []string{"screenshot"},
		own:         object{"target": text("A URL, or the path of a file")},
		description: "Opens a URL or a file with the desktop's program for it.",
	},
	{
		name: "computer", title: "Use the computer",
		parameters: slices.Sorted(maps.Keys(schemas)),
		own: object{
			"action": object{"type": "string", "enum": slices.Sorted(maps.Keys(actions))},
			"actions": object{
				"type": "array", "maxItems": maxActions, "items": object{"type": "object"},
				"description": "Instead of action: several, each an object with its action and parameters, done one after another, with one screenshot at the end",
			},
			"text":   text("What to type, the keys to press, or, for pointer actions, the modifiers to hold"),
			"kind":   text("For clipboard_get: text or image. For windows: list, focus, close, move, resize, maximise, restore or minimise"),
			"keys":   object{"type": "array", "items": object{"type": "string"}, "description": "For keypress: the keys of one chord"},
			"window": object{"type": "integer", "description": "For windows: its number in the list"},
			"width":  object{"type": "integer", "description": "For windows: resize"},
			"height": object{"type": "integer", "description": "For windows: resize"},
			"app":    text("For launch: a program's name, or its path"),
			"args":   object{"type": "array", "items": object{"type": "string"}, "description": "For launch"},
			"target": text("For open: a URL, or the path of a file"),
		},
		description: "Does any of the other tools' actions, or a list of them. The screenshot is {size} pixels.",
	},
}

// describe returns the tool as MCP's list has it.
func (t tool) describe() *mcp.Tool {
	properties := maps.Clone(t.own)
	if properties == nil {
		properties = object{}
	}
	for _, name := range t.parameters {
		properties[name] = schemas[name]
	}
	schema := object{"type": "object", "properties": properties}
	if t.required != nil {
		schema["required"] = t.required
	}
	open, destroys := !t.closed, !t.reads && !t.closed
	return &mcp.Tool{
		Name: t.name, Title: t.title, Description: t.description, InputSchema: schema,
		Annotations: &mcp.ToolAnnotations{
			Title: t.title, ReadOnlyHint: t.reads, IdempotentHint: t.reads, OpenWorldHint: &open, DestructiveHint: &destroys,
		},
	}
}
