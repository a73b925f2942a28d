// Package events has the route of the event stream of the whole server: what happens on
// desktops, in sessions and with processes, in one stream that a client can resume.
//
// A stream has a source for each topic. Sources send messages at the pace of the client, and
// each message says where its source is after it. The id of an event has the positions of all
// sources, so that the client resumes all topics by one id.
package events
