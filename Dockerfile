# For those who build images with a container engine: docker build -t trellis .
# The image that the project releases is assembled without one, see hack/image. Both have the same files of ours.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# Which build it is, where git cannot tell: --build-arg VERSION=v0.1.0, see hack/stamp.sh.
ARG VERSION COMMIT DATE
RUN make licences
ARG TARGETOS TARGETARCH
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -ldflags "-s -w $(hack/stamp.sh)" -o /trellis ./cmd/trellis

# Certificate authorities and a user, nothing that could be started.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /trellis /trellis
COPY --from=build /src/bin/licences/LICENCES /usr/share/doc/trellis/LICENCES
USER 65532:65532
ENTRYPOINT ["/trellis"]
