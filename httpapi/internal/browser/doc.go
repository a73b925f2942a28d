// Package browser serves the routes of the browsers of desktops: the browser's own, and the
// endpoint of the Chrome DevTools Protocol for Playwright, Puppeteer and other clients.
package browser
