package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	defaultRegistry = "https://registry.npmjs.org"
	integrityPrefix = "sha512-"

	// mostPacked and mostUnpacked bound a package and what it unpacks to.
	mostPacked   = 4 << 20
	mostUnpacked = 16 << 20
)

var errLarge = fmt.Errorf("the package unpacks to more than %d bytes", mostUnpacked)

// source is where packages come from.
type source struct {
	registry string // a URL; empty: defaultRegistry
	cache    string // a folder
}

// tarball returns the packed package, from the cache or the registry. Its checksum is
// that of the lock file.
func (s source) tarball(ctx context.Context, l library) ([]byte, error) {
	cached := filepath.Join(s.cache, strings.ReplaceAll(l.Package, "/", "+")+"-"+l.Version+".tgz")
	if data, err := os.ReadFile(cached); err == nil && l.check(data) == nil {
		return data, nil
	}
	url := strings.TrimSuffix(cmp.Or(s.registry, defaultRegistry), "/") + "/" + l.Package + "/-/" + path.Base(l.Package) + "-" + l.Version + ".tgz"
	data, err := get(ctx, url)
	if err != nil {
		return nil, err
	}
	if err := l.check(data); err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	return data, writeFile(cached, data)
}

// check compares the checksum of a tarball with that of the lock file.
func (l library) check(data []byte) error {
	sum := sha512.Sum512(data)
	if got := integrityPrefix + base64.StdEncoding.EncodeToString(sum[:]); got != l.Integrity {
		return fmt.Errorf("the checksum is %s, the lock file has %s", got, l.Integrity)
	}
	return nil
}

// get fetches a URL.
func get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w: set NPM_CONFIG_REGISTRY to a registry that this machine can reach", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: %s", url, response.Status)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, mostPacked+1))
	if err == nil && len(data) > mostPacked {
		err = fmt.Errorf("the package is larger than %d bytes", mostPacked)
	}
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", url, err)
	}
	return data, nil
}

// extract returns the files of a tarball that names has, by the names that it gives them.
// It returns an error if one is missing or is not a regular file.
func extract(tarball []byte, names map[string]string) (map[string][]byte, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(tarball))
	if err != nil {
		return nil, err
	}
	limited := &io.LimitedReader{R: unzipped, N: mostUnpacked}
	files := map[string][]byte{}
	for archive := tar.NewReader(limited); len(files) < len(names); {
		header, err := archive.Next()
		switch {
		case limited.N == 0:
			return nil, errLarge
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("the package does not have all of %v", slices.Sorted(maps.Keys(names)))
		case err != nil:
			return nil, err
		}
		_, inner, _ := strings.Cut(header.Name, "/") // the first folder is called package, by custom
		name, named := names[inner]
		if !named {
			continue
		}
		if header.Typeflag != tar.TypeReg {
			return nil, fmt.Errorf("%s is not a regular file", header.Name)
		}
		files[name], err = io.ReadAll(archive)
		switch {
		case limited.N == 0:
			return nil, errLarge
		case err != nil:
			return nil, fmt.Errorf("%s: %w", header.Name, err)
		}
	}
	return files, nil
}
