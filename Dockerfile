# For those who build images with a container engine: docker build -t trellis .
# The image that the project releases is assembled without one, see hack/image.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS TARGETARCH
WORKDIR /src
COPY . .
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags "-s -w $(hack/stamp.sh)" -o /trellis ./cmd/trellis

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /trellis /trellis
USER 65532:65532
ENTRYPOINT ["/trellis"]
