package import ArgumentParser

/// What Herald costs: one command for each measurement.
package enum MeasurementCommands {
  package static var all: [any ParsableCommand.Type] {
    [
      JSONBench.self, HTTP2Bench.self, RedisBench.self, AMQPBench.self, PipelineBench.self, AudienceBench.self,
      CredentialsBench.self, RegistryBench.self, SegmentsBench.self, GatewayBench.self,
    ]
  }
}
