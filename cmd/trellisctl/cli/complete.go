package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// CompleteFlag completes the value of a flag with the names of a kind and with some words.
func (e *Env) CompleteFlag(cmd *cobra.Command, flag string, kind Kind, words ...string) {
	must(cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, _ string) (
		[]string, cobra.ShellCompDirective) {
		return append(e.names(cmd.Context(), kind), words...), cobra.ShellCompDirectiveNoFileComp
	}))
}

// CompleteWords completes the value of a flag with words.
func CompleteWords(cmd *cobra.Command, flag string, words ...string) {
	must(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)))
}

// Contexts are the names of contexts in the kubeconfig, for completion.
func (e *Env) Contexts() ([]string, error) {
	config, err := e.raw()
	return slices.Sorted(maps.Keys(config.Contexts)), err
}

// Clusters are the names of clusters in the kubeconfig.
func (e *Env) Clusters() ([]string, error) {
	config, err := e.raw()
	return slices.Sorted(maps.Keys(config.Clusters)), err
}

// Users are the names of users in the kubeconfig.
func (e *Env) Users() ([]string, error) {
	config, err := e.raw()
	return slices.Sorted(maps.Keys(config.AuthInfos)), err
}

func (e *Env) raw() (clientcmdapi.Config, error) {
	config, err := e.Flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return clientcmdapi.Config{}, fmt.Errorf("reading the kubeconfig of the source cluster: %w", err)
	}
	return config, nil
}

// Namespaces are those of the source cluster, none if it does not respond in time.
func (e *Env) Namespaces(ctx context.Context) []string {
	source, err := e.Source()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	list := &corev1.NamespaceList{}
	_ = source.List(ctx, list)
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}
