import Foundation
import PushIO
import PushLane
import PushSettings

/// RabbitMQ's management API, for what AMQP does not tell.
struct ManagementAPI {
  struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  private let call: HTTPCall
  private let authorization: String
  private let virtualHost: String

  /// - Parameter broker: whose virtual host it is asked about, and whose login it has unless `management` has one.
  init(_ management: ManagementAddress, broker: AMQPAddress, tls: TLSContext?) {
    let service = management.service
    call = HTTPCall(endpoint: Endpoint(host: service.host, port: service.port), tls: tls)
    let user = service.user ?? broker.user
    let password = service.user == nil ? broker.password : service.password ?? ""
    authorization = "Authorization: Basic \(Data("\(user):\(password)".utf8).base64EncodedString())"
    virtualHost = broker.virtualHost.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
  }

  /// All policies, queues and bindings of the virtual host.
  func policies(_ topology: Topology) throws -> QueuePolicies {
    QueuePolicies(
      topology: topology, policies: try list("policies"), operatorPolicies: try list("operator-policies"),
      queues: try list("queues", "?columns=name,type,arguments"),
      bindings: try list("bindings", "?columns=source,destination,destination_type"))
  }

  private func list<Item: Decodable>(_ kind: String, _ query: String = "") throws -> [Item] {
    let (path, endpoint) = ("/api/\(kind)/\(virtualHost)\(query)", call.endpoint)
    do {
      let answer = try call.ask("GET", path, headers: [authorization])
      switch answer.status {
      case 200: return try JSONDecoder().decode([Item].self, from: answer.body)
      case 401, 403:
        throw Failure(
          description:
            "\(endpoint) does not let the user read /api/\(kind): it needs the tag policymaker, and this virtual host")
      case let status: throw Failure(description: "\(endpoint) answered \(path) with \(status)")
      }
    } catch HTTPCall.Failure.unreachable(let text) {
      throw Failure(description: "no management API answers at \(endpoint): \(text)")
    } catch HTTPCall.Failure.silent {
      throw Failure(description: "\(endpoint) did not answer \(path) within \(HTTPCall.timeoutMilliseconds) ms")
    } catch is HTTPCall.Failure, is DecodingError {
      throw Failure(description: "what \(endpoint) answers to \(path) is not of RabbitMQ's management API")
    }
  }
}
