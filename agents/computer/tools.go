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
	"path":             object{"type": "array", "items": coordinate("[x, y]"), "minItems": 2, "description": "Instead of start_coordinate and coordinate: all points of the path"},
	"button":           object{"type": "string", "enum": []string{"left", "right", "middle", "back", "forward"}, "description": "Defaults to left"},
	"count":            object{"type": "integer", "minimum": 1, "maximum": 100, "description": "2 for a double click"},
	"modifiers":        object{"type": "string", "description": `Keys to hold during the action: "ctrl", "ctrl+shift", ...`},
	"screenshot":       object{"type": "boolean", "description": "false: return no screenshot"},
	"scroll_direction": object{"type": "string", "enum": []string{"up", "down", "left", "right"}},
	"scroll_amount":    object{"type": "integer", "minimum": 1, "maximum": 1000, "description": "Wheel steps; defaults to 3"},
	"region": object{
		"type": "array", "items": object{"type": "integer"}, "minItems": 4, "maxItems": 4,
		"description": "[x0, y0, x1, y1] in pixels of the latest screenshot",
	},
	"waitControlMs": object{
		"type": "integer", "minimum": 0, "maximum": maxControlWait,
		"description": "Milliseconds to wait for the end of another actor's control of the desktop, for all actions of the call",
	},
	"duration": object{"type": "number", "minimum": 0, "maximum": maxSeconds, "description": "Seconds"},
}

func text(description string) object { return object{"type": "string", "description": description} }

var tools = []tool{
	{
		name: "screenshot", title: "Take a screenshot", reads: true, closed: true,
		description: "Shows the screen in {size} pixels, after it stops changing.",
	},
	{
		name: "zoom", title: "Zoom", reads: true, closed: true, required: []string{"region"}, parameters: []string{"region"},
		description: "Shows a part of the screen at full resolution. Coordinates for other tools remain in the whole screenshot.",
	},
	{
		name: "click", title: "Click", parameters: []string{"coordinate", "button", "count", "modifiers", "screenshot"},
		description: "Clicks at a position in the {size} screenshot, or at the pointer.",
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
		description: "Scrolls at a position, or at the pointer.",
	},
	{
		name: "type", title: "Type text", parameters: []string{"screenshot"},
		own: object{
			"text":    text("Any Unicode text; a line feed presses Return"),
			"delayMs": object{"type": "number", "minimum": 0, "maximum": maxDelay, "description": "Milliseconds between characters, for programs that lose some; 0 when left out"},
			"mode":    object{"type": "string", "enum": []string{"auto", "keys", "paste"}, "description": "paste: by the clipboard, for long texts; its content is put back. auto when left out: by keys where possible"},
			"secret":  text("Instead of text: name of a secret, such as a password, whose value the server types"),
		},
		description: "Types text, or a secret, into the focused window.",
	},
	{
		name: "key", title: "Press keys", required: []string{"text"}, parameters: []string{"screenshot"},
		own:         object{"text": text(`A key or chord with xdotool's names, such as "Return", "ctrl+s", "alt+F4"; several, separated by spaces, are pressed one after another`)},
		description: "Presses and releases a key or a chord.",
	},
	{
		name: "hold_key", title: "Hold a key", required: []string{"text"}, parameters: []string{"duration", "screenshot"},
		own:         object{"text": text("A key or chord")},
		description: "Holds a key or a chord down for a duration, which defaults to 1 second.",
	},
	{
		name: "wait", title: "Wait", reads: true, closed: true, parameters: []string{"duration", "screenshot"},
		description: "Waits for the duration or, without one, until the screen stops changing, at most 10 s.",
	},
	{
		name: "cursor_position", title: "Get the pointer position", reads: true, closed: true,
		description: "Returns the position of the pointer in the {size} screenshot.",
	},
	{
		name: "windows", title: "List and arrange windows", parameters: []string{"coordinate", "screenshot"},
		own: object{
			"action": object{"type": "string", "enum": []string{"list", "focus", "close", "move", "resize", "maximise", "restore", "minimise"}, "description": "Defaults to list"},
			"window": object{"type": "integer", "description": "Number of the window in the list"},
			"width":  object{"type": "integer", "description": "For resize"},
			"height": object{"type": "integer", "description": "For resize"},
		},
		description: "Lists the windows, or focuses, closes, moves (to coordinate), resizes, maximises, restores or minimises one.",
	},
	{
		name: "clipboard_get", title: "Read the clipboard", reads: true, closed: true,
		own:         object{"kind": object{"type": "string", "enum": []string{"text", "image"}, "description": "Defaults to text"}},
		description: "Returns the text or image on the clipboard.",
	},
	{
		name: "clipboard_set", title: "Set the clipboard", closed: true, required: []string{"text"},
		own:         object{"text": text("Text for the clipboard")},
		description: "Puts text on the clipboard.",
	},
	{
		name: "launch", title: "Start a program", required: []string{"app"}, parameters: []string{"screenshot"},
		own: object{
			"app":   text("Name or path of a program"),
			"args":  object{"type": "array", "items": object{"type": "string"}},
			"wait":  object{"type": "boolean", "description": "false: do not wait for the program's window"},
			"ready": object{"type": "boolean", "description": "true: wait until the program can be used, past its splash screen"},
			"env":   object{"type": "object", "additionalProperties": object{"type": "string"}, "description": "Variables to add to its environment"},
			"cwd":   text("Working directory"),
		},
		description: "Starts a program on the desktop and waits for its first window. There is no shell.",
	},
	{
		name: "open", title: "Open a file or URL", required: []string{"target"}, parameters: []string{"screenshot"},
		own:         object{"target": text("URL or path of a file")},
		description: "Opens a URL or a file with its default program.",
	},
	{
		name: "choose_file", title: "Choose a file in a dialog", required: []string{"target"}, parameters: []string{"screenshot"},
		own:         object{"target": text("Absolute path of the file to open or save")},
		description: "Enters a path into the open file dialog, confirms it, and waits until the dialog closes.",
	},
	{
		name: "computer", title: "Use the computer",
		parameters: slices.Sorted(maps.Keys(schemas)),
		own: object{
			"action": object{"type": "string", "enum": slices.Sorted(maps.Keys(actions))},
			"actions": object{
				"type": "array", "maxItems": maxActions, "items": object{"type": "object"},
				"description": "Instead of action: a list of actions, each an object with its action and parameters. They run in order, with one screenshot at the end",
			},
			"expect": object{
				"type": "string", "enum": []string{"same", "window", "any"},
				"description": "For actions: what must be as in the latest screenshot before the first action: the pixels around each coordinate and the window there (same, the default), that window, or nothing (any)",
			},
			"stopOn": object{
				"type": "array", "items": object{"type": "string", "enum": []string{"failure", "window", "focus", "control"}},
				"description": "For actions: what ends the list early: a failed action, a window that opens or closes, another window with the focus, another actor's control; failure and control when left out",
			},
			"text":   text("Text to type, keys to press, or, for pointer actions, modifiers to hold"),
			"secret": text("For type, instead of text: name of a secret whose value the server types"),
			"kind":   text("For clipboard_get: text or image. For windows: list, focus, close, move, resize, maximise, restore or minimise"),
			"keys":   object{"type": "array", "items": object{"type": "string"}, "description": "For keypress: the keys of one chord"},
			"window": object{"type": "integer", "description": "For windows: number of the window in the list"},
			"width":  object{"type": "integer", "description": "For windows: resize"},
			"height": object{"type": "integer", "description": "For windows: resize"},
			"app":    text("For launch: name or path of a program"),
			"args":   object{"type": "array", "items": object{"type": "string"}, "description": "For launch"},
			"target": text("For open: URL or path of a file. For choose_file: absolute path of the file"),
			"ref":    text("For element: a reference such as @e12"),
			"do":     text("For element: click, focus, setText, setValue, select, expand, collapse, scrollIntoView or menu"),
			"value":  text("For element: the text, number or option"),
			"role":   text("For elements: only this role"),
			"name":   text("For elements: only this name"),
			"limit":  object{"type": "integer", "description": "For elements: at most this many"},
		},
		description: "Performs an action of any other tool, or a list of actions. The screenshot is {size} pixels.",
	},
}

// describe returns the tool for MCP's tools/list.
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
