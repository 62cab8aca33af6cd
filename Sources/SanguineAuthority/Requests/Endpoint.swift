package import SanguineModel

/// One endpoint of the wire contract: its route and its handler.
package struct Endpoint: Sendable {
    /// Handles a request to the endpoint.
    package typealias Handler =
        @Sendable (any WireRequest) async throws(Problem) -> WireResponse

    /// The method, in upper case.
    package let method: String
    /// The path below `/v1`, in which a component that begins with `:` is a parameter.
    package let path: String
    /// Handles a request.
    package let handler: Handler
    /// Whether the handler mostly waits and computes little, so that it can share a thread with
    /// connections.
    ///
    /// Default: false.
    package private(set) var isBrief = false

    /// Creates an endpoint.
    package init(_ method: String, _ path: String, _ handler: @escaping Handler) {
        self.method = method
        self.path = path
        self.handler = handler
    }

    /// The same endpoint, marked as brief.
    package var brief: Endpoint {
        var endpoint = self
        endpoint.isBrief = true
        return endpoint
    }
}

/// The endpoints of the wire contract, shared by all servers of an authority.
///
/// A server routes requests to them and sends their responses; it adds ports, rates, metrics and
/// logs.
package struct Endpoints: Sendable {
    /// Observes pushes and their results.
    package typealias PushObserver = @Sendable (Identifier, PushRequest, PushAnswer) -> Void

    let authority: Authority
    let calls: CallRunner
    let admission: Admission
    /// Refuses operations before their record mutations run; `nil` refuses none.
    let judge: Authority.PushJudge?
    let onPush: PushObserver?
    let onStoreNotification: StoreNotificationObserver?

    /// Creates the endpoints of an authority.
    ///
    /// - Parameters:
    ///   - authority: The authority.
    ///   - calls: The runner of function calls.
    ///   - judge: Refuses operations before their record mutations run. Default: none.
    ///   - onPush: Observes pushes and their results. Default: none.
    ///   - onStoreNotification: Observes the notifications of a store. Default: none.
    package init(
        authority: Authority,
        calls: CallRunner,
        judge: Authority.PushJudge? = nil,
        onPush: PushObserver? = nil,
        onStoreNotification: StoreNotificationObserver? = nil
    ) {
        self.authority = authority
        self.calls = calls
        self.judge = judge
        self.onPush = onPush
        self.onStoreNotification = onStoreNotification
        admission = Admission(authority)
    }

    /// All endpoints.
    package var all: [Endpoint] {
        accounts + attestation + credentials + sessions + identities + rights + merges + balances
            + purchases + records + functions + blobs + uploads
    }
}
