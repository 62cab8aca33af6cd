package import SanguineModel

/// One call of the wire contract: what it is asked by, and what answers it.
package struct Endpoint: Sendable {
    /// Answers a request that was sent to the endpoint.
    package typealias Handler =
        @Sendable (any WireRequest) async throws(Problem) -> WireAnswer

    /// The method, in upper case.
    package let method: String
    /// The path below `/v1`, in which a part that begins with `:` is a parameter.
    package let path: String
    /// Answers a request.
    package let handler: Handler
    /// Whether its handler waits much and computes little, so that it can share a thread with
    /// connections.
    ///
    /// Default: it does not.
    package private(set) var isBrief = false

    /// Creates an endpoint.
    package init(_ method: String, _ path: String, _ handler: @escaping Handler) {
        self.method = method
        self.path = path
        self.handler = handler
    }

    /// The same endpoint, which computes little.
    package var brief: Endpoint {
        var endpoint = self
        endpoint.isBrief = true
        return endpoint
    }
}

/// The calls of the wire contract, as every server of an authority answers them.
///
/// A server routes requests to them and carries their answers; what it adds is its own: ports,
/// rates, metrics and logs.
package struct Endpoints: Sendable {
    /// Learns what was pushed and what became of it.
    package typealias PushObserver = @Sendable (Identifier, PushRequest, PushAnswer) -> Void

    let authority: Authority
    let calls: CallRunner
    let admission: Admission
    /// Refuses operations before their record mutations are asked; `nil` refuses none.
    let judge: Authority.PushJudge?
    let onPush: PushObserver?

    /// Creates the endpoints of an authority.
    ///
    /// - Parameters:
    ///   - authority: What decides.
    ///   - calls: What runs functions.
    ///   - judge: Refuses operations before their record mutations are asked. Default: none.
    ///   - onPush: Learns what was pushed and decided. Default: nobody does.
    package init(
        authority: Authority,
        calls: CallRunner,
        judge: Authority.PushJudge? = nil,
        onPush: PushObserver? = nil
    ) {
        self.authority = authority
        self.calls = calls
        self.judge = judge
        self.onPush = onPush
        admission = Admission(authority)
    }

    /// All of them.
    package var all: [Endpoint] { accounts + balances + records + functions + blobs }
}
