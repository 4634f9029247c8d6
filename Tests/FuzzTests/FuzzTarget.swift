/// Every entry of bytes from outside, by the name of its corpus (`Tests/Corpora/<name>`). Run by `FuzzTests` and
/// `scripts/fuzz`.
struct FuzzTarget: Sendable, CustomStringConvertible {
  let name: String
  /// Mutations in each `make test`: as many as take about a second.
  let rounds: Int
  let subject: any FuzzSubject.Type

  var description: String { name }

  static let all: [FuzzTarget] = [
    FuzzTarget(name: "job", rounds: 6_000, subject: JobSubject.self),
    FuzzTarget(name: "activity-payload", rounds: 6_000, subject: ActivityPayloadSubject.self),
    FuzzTarget(name: "amqp", rounds: 1_500, subject: AMQPSubject.self),
    FuzzTarget(name: "amqp-methods", rounds: 20_000, subject: AMQPMethodSubject.self),
    FuzzTarget(name: "amqp-properties", rounds: 20_000, subject: AMQPPropertiesSubject.self),
    FuzzTarget(name: "redis", rounds: 4_000, subject: RedisSubject.self),
    FuzzTarget(name: "remembered", rounds: 20_000, subject: RememberedSubject.self),
    FuzzTarget(name: "http2-client", rounds: 2_000, subject: HTTP2ClientSubject.self),
    FuzzTarget(name: "http2-server", rounds: 2_000, subject: HTTP2ServerSubject.self),
    FuzzTarget(name: "apns-body", rounds: 20_000, subject: APNsBodySubject.self),
    FuzzTarget(name: "segment-filter", rounds: 10_000, subject: SegmentFilterSubject.self),
    FuzzTarget(name: "live-activities-api", rounds: 1_000, subject: LiveActivitiesAPISubject.self),
    FuzzTarget(name: "proxy", rounds: 20_000, subject: ProxySubject.self),
  ]
}
