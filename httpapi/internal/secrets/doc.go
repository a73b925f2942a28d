// Package secrets has the routes of secrets: setting, listing and deleting them. No route
// answers with a value.
package secrets
