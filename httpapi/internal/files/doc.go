// Package files has the routes of files and directories below the server's roots.
package files
