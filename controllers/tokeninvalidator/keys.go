package tokeninvalidator

import (
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

const (
	// PurposeLabel of a Secret, with the value Purpose, routes what is written to it through the webhook.
	PurposeLabel = resourcesv1alpha1.PurposeLabel
	// Purpose is the value of PurposeLabel of Secrets that the webhook gets to see.
	Purpose = resourcesv1alpha1.PurposeTokenInvalidator
	// ConsiderLabel of a Secret, of whatever value, says that its token is to be invalid.
	ConsiderLabel = resourcesv1alpha1.ConsiderTokenLabel
	// SkipLabel of a ServiceAccount, of whatever value, says that its tokens stay valid.
	SkipLabel = resourcesv1alpha1.SkipTokenLabel
)
