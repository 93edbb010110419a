package activities

import (
	"strings"
	"testing"

	"github.com/drover-io/drover/internal/domain"
)

// What a refusal advises first must not be refused itself.
func TestTheAdviceForACloudIsAllowed(t *testing.T) {
	for status := range cloudSentences {
		advice := cloudAdvice(status, nil)
		op := domain.OpInstantiate
		switch {
		case strings.HasPrefix(advice, "terminate it"):
			op = domain.OpTerminate
		case strings.HasSuffix(advice, "when that has ended"):
			continue
		}
		cloud := &domain.LogicalCloud{Spec: domain.LogicalCloudSpec{Level: domain.LevelStandard}}
		if _, err := cloud.Decide(status, op); err != nil {
			t.Errorf("%s: %q is advised: %v", status, advice, err)
		}
	}
	advice := cloudAdvice(domain.ContextInstantiateFailed, &domain.Instance{Origin: domain.OpUpdate})
	cloud := &domain.LogicalCloud{Spec: domain.LogicalCloudSpec{Level: domain.LevelStandard}}
	if _, err := cloud.Decide(domain.ContextInstantiateFailed, domain.OpUpdate); err != nil || advice != "update it again" {
		t.Errorf("after an update that has failed %q is advised: %v", advice, err)
	}
}
