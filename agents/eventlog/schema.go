package eventlog

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// migrations has a folder of numbered scripts for each database. Each script runs once, in
// one transaction with the change of the version. Released scripts do not change.
//
//go:embed migrations
var migrations embed.FS

// migrationsFor returns the scripts for a database, the one for version 1 first.
func migrationsFor(database string) ([]string, error) {
	folder := path.Join("migrations", database)
	files, err := fs.ReadDir(migrations, folder)
	if err != nil {
		return nil, err
	}
	var all []string
	for i, f := range files { // in the order of their names
		number, _, _ := strings.Cut(f.Name(), "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			return nil, fmt.Errorf("%s is not number %d", path.Join(folder, f.Name()), i+1)
		}
		text, err := fs.ReadFile(migrations, path.Join(folder, f.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, string(text))
	}
	return all, nil
}

// migrator is a database in a transaction.
type migrator interface {
	// version returns the version of the schema, 0 for an empty database, and -1 for a
	// database that is not an event log.
	version(ctx context.Context) (int, error)
	run(ctx context.Context, script string) error
}

// migrate brings a schema up to date. The name of the database is for errors.
func migrate(ctx context.Context, m migrator, all []string, name string) error {
	have, err := m.version(ctx)
	switch {
	case err != nil:
		return err
	case have < 0:
		return &SchemaError{Database: name}
	case have > len(all):
		return &SchemaError{Database: name, Version: have, Known: len(all)}
	case have == 0:
		if err := m.run(ctx, "create table schema_version (version bigint not null); insert into schema_version values (0);"); err != nil {
			return err
		}
	}
	for i, script := range all[have:] {
		version := have + i + 1
		if err := m.run(ctx, fmt.Sprintf("%s\nupdate schema_version set version = %d;", script, version)); err != nil {
			return fmt.Errorf("bring %s to version %d of the schema: %w", name, version, err)
		}
	}
	return nil
}
