// Package examples holds composite apps to try Drover with, as sources, and packs their charts and profiles
// in memory as the API takes them.
package examples

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io/fs"
	"path"
)

// all: because partials of charts begin with an underscore.
//
//go:embed all:vfw/helm all:vfw/profiles dtc/helm dtc/profiles gac/helm gac/profiles hpa/helm hpa/profiles
var sources embed.FS

// Apps of the virtual firewall, in the order in which its composite app has them.
var Apps = []string{"packetgen", "firewall", "sink"}

// TrafficApps are those of the example dtc, whose traffic is controlled.
var TrafficApps = []string{"http-server", "http-client"}

// TrafficChart is Chart of one of TrafficApps.
func TrafficChart(app string) ([]byte, error) { return pack("dtc/helm", path.Join("dtc/helm", app)) }

// TrafficProfile is Profile of one of TrafficApps.
func TrafficProfile(app string) ([]byte, error) {
	dir := path.Join("dtc/profiles", app)
	return pack(dir, dir)
}

// GenericApp is the app of the example gac, which a generic k8s intent makes another one on each cluster.
const GenericApp = "operator"

// GenericChart is Chart of GenericApp.
func GenericChart() ([]byte, error) { return pack("gac/helm", path.Join("gac/helm", GenericApp)) }

// GenericProfile is Profile of GenericApp.
func GenericProfile() ([]byte, error) {
	dir := path.Join("gac/profiles", GenericApp)
	return pack(dir, dir)
}

// HardwareApp is that of the example hpa, which chooses its cluster by nodes.
const HardwareApp = "http-client"

// HardwareChart is Chart of HardwareApp.
func HardwareChart() ([]byte, error) { return pack("hpa/helm", path.Join("hpa/helm", HardwareApp)) }

// HardwareProfile is Profile of HardwareApp.
func HardwareProfile() ([]byte, error) {
	dir := path.Join("hpa/profiles", HardwareApp)
	return pack(dir, dir)
}

// Chart packs the chart of one of Apps: a tgz with the chart in a directory named like the app. The same
// sources give the same bytes.
func Chart(app string) ([]byte, error) { return pack("vfw/helm", path.Join("vfw/helm", app)) }

// Profile packs the profile of one of Apps: a tgz with manifest.yaml at its root. The same sources give
// the same bytes.
func Profile(app string) ([]byte, error) {
	dir := path.Join("vfw/profiles", app)
	return pack(dir, dir)
}

// pack makes a tgz of the files below dir, named relative to root. Neither times nor owners go into it;
// WalkDir's order is by name.
func pack(root, dir string) ([]byte, error) {
	var data bytes.Buffer
	zipped := gzip.NewWriter(&data)
	archive := tar.NewWriter(zipped)
	err := fs.WalkDir(sources, dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := sources.ReadFile(name)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: name[len(root)+1:], Mode: 0o644, Size: int64(len(content)), Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", dir, err)
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("pack %s: %w", dir, err)
	}
	if err := zipped.Close(); err != nil {
		return nil, fmt.Errorf("pack %s: %w", dir, err)
	}
	return data.Bytes(), nil
}
