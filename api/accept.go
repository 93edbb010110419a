package api

import (
	"cmp"
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/rights"
)

// fileOffers are the forms of a document that has a file, the preferred one first.
var fileOffers = []string{echo.MIMEApplicationJSON, echo.MIMEOctetStream, echo.MIMEMultipartForm}

// answer gives a document that has a file in the form that the client accepts: JSON, the file, or both. Where the file
// is not given away, a client that takes the document alone gets that.
func (e *edge) answer(c echo.Context, s door.Service, o domain.Object, r resource) error {
	accept, kept := c.Request().Header.Values(echo.HeaderAccept), r.secret && !e.kubeconfigs
	denied := r.secret && !rights.Of(c.Request().Context()).May(rights.Download, r.noun, domain.KeyOf(o))
	if _, plain := negotiate(accept, fileOffers[:1]); plain && (kept || denied) {
		return c.JSON(http.StatusOK, o)
	}
	offer, ok := negotiate(accept, fileOffers)
	switch {
	case !ok:
		return echo.NewHTTPError(http.StatusNotAcceptable, "set Accept: multipart/form-data, application/json or application/octet-stream")
	case offer == echo.MIMEApplicationJSON:
		return c.JSON(http.StatusOK, o)
	case denied:
		return fail.New(fail.Forbidden, "you have no right to download the %s of %s %q", r.fileName, r.noun.Title, o.LocalName())
	case kept:
		return fail.New(fail.Forbidden, "the %s of %s %q is not given away; --allow-kubeconfig-download changes that", r.fileName, r.noun.Title, o.LocalName())
	}
	files, err := filesOf(c.Request().Context(), s, o, r.fileName)
	if err != nil {
		return err
	}
	if offer == echo.MIMEOctetStream {
		file := []byte{}
		for _, f := range files {
			file = append(file, f.Data...)
		}
		return c.Blob(http.StatusOK, offer, file)
	}
	metadata, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return writeForm(c, cmp.Or(r.part, "metadata"), metadata, files)
}

// takesFile says whether a client accepts the file of a document rather than the document alone.
func takesFile(r *http.Request) bool {
	offer, ok := negotiate(r.Header.Values(echo.HeaderAccept), fileOffers)
	return ok && offer != echo.MIMEApplicationJSON
}

// filesOf are the files that came with a document; of nouns with one it is called name.
func filesOf(ctx context.Context, s door.Service, o domain.Object, name string) ([]domain.Upload, error) {
	if o.Noun().Files {
		return s.Files(ctx, o)
	}
	file, err := s.File(ctx, o)
	return []domain.Upload{{Name: name, Data: file}}, err
}

// negotiate picks the offer that the Accept header ranks highest; the first of those that rank equal in
// the header's order, and the first offer when there is no header or a wildcard decides. ok is false when
// none is accepted. The most specific range that covers an offer has its weight (RFC 9110, section 12.5.1): "text/html;q=0, */*" takes
// everything but HTML. A range that cannot be read is skipped.
func negotiate(accept, offers []string) (offer string, ok bool) {
	if len(accept) == 0 {
		return offers[0], true
	}
	ranges := acceptedRanges(accept)
	best, at := 0.0, 0
	for _, o := range offers {
		if q, i := weightOf(ranges, o); q > best || q == best && q > 0 && i < at {
			best, at, offer = q, i, o
		}
	}
	return offer, best > 0
}

// mediaRange is one of an Accept header, with its weight of 0 to 1.
type mediaRange struct {
	media string
	q     float64
}

// acceptedRanges are the ranges that can be read, in the header's order.
func acceptedRanges(accept []string) (all []mediaRange) {
	for ranged := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		media, parameters, err := mime.ParseMediaType(ranged)
		if err != nil {
			continue
		}
		q := 1.0
		if text, given := parameters["q"]; given {
			if q, err = strconv.ParseFloat(text, 64); err != nil || !(q >= 0 && q <= 1) { // nor is NaN a weight
				continue
			}
		}
		all = append(all, mediaRange{media, q})
	}
	return all
}

// weightOf is the weight that the most specific range gives an offer, and that range's place; the greatest weight of equally specific
// ones, and 0 where none covers it.
func weightOf(ranges []mediaRange, offer string) (q float64, at int) {
	most := -1
	for i, r := range ranges {
		if !matches(r.media, offer) {
			continue
		}
		specific := 2 - strings.Count(r.media, "*") // the media type itself, all of its group, everything
		if specific > most || specific == most && r.q > q {
			most, q, at = specific, r.q, i
		}
	}
	return q, at
}

// matches says whether a media range covers an offer.
func matches(media, offer string) bool {
	if media == "*/*" || media == offer {
		return true
	}
	group, isGroup := strings.CutSuffix(media, "*")
	return isGroup && strings.HasSuffix(group, "/") && strings.HasPrefix(offer, group)
}
