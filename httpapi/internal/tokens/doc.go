// Package tokens has the routes of tokens: making, listing and revoking them.
package tokens
