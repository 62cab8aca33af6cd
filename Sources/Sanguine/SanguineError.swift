public import SanguineModel

/// The reason why the client could not complete a call.
public enum SanguineError: Error, Hashable, Sendable {
    /// The server refused the request, or has a fault. Decide by `Problem.code`.
    ///
    /// An error of a backend that does not speak `application/problem+json` has the code
    /// `http_<status>`.
    indirect case problem(Problem)  // Far larger than the other cases, and in every call's frame.
    /// There was no response.
    case transport(TransportError)
    /// The read took too long, including all of its attempts; contains the error of the last
    /// attempt that ended.
    indirect case timedOut(after: SanguineError)
    /// The response does not match the declared type. The text names the type and the location, and
    /// ``SanguineError/response`` is the response itself.
    indirect case decoding(DecodingFailure)
    /// The store on disk or the keychain failed.
    case store(StoreError)
    /// The operation was sent, but the client cannot determine whether it took effect.
    case outcomeUnknown(operation: String)
    /// The balance arrived, but with so many calls in flight, the client cannot determine which of
    /// them it contains.
    ///
    /// Only the first balance can fail this way.
    case balanceUnsettled
    /// The user changed during the call; the response was dropped.
    case userChanged
    /// The calling task was cancelled.
    case cancelled
    /// The client was closed.
    case closed
    /// The configuration lacks something that the call needs. The text names it.
    case notConfigured(String)
    /// A declaration cannot be used, such as two types with the same name. The text says what to
    /// change.
    case invalidDeclaration(String)
    /// No user was signed in by ``SanguineClient/signIn(as:)``. The text says why, and what to do.
    case signInRefused(String)
    /// Too many reads wait for one host, so this one, which has the lowest priority, was refused.
    case queueFull(limit: Int)
    /// The outbox is full, so the operation was not accepted.
    case outboxFull(limit: Int)
    /// Two queries share a name and have values of different types.
    case conflictingQuery(name: String)
    /// More days or numbers were requested at once than the client can keep.
    case rangeTooLong(limit: Int)
    /// One of the app's closures threw an error, or the client could not keep its result. The text
    /// describes the error, and ``SanguineError/underlying`` is the error itself.
    ///
    /// Network errors in such a closure become ``transport(_:)`` instead: a `URLError`, a
    /// `POSIXError` of a connection, a `CancellationError`, a ``TransportError``.
    indirect case queryFailed(ClosureFailure)
}

extension SanguineError {
    /// A stable name: the problem's own code, or the name of the case in snake case.
    public var code: String {
        switch self {
        case .problem(let problem): problem.code.rawValue
        case .transport(.timedOut), .timedOut: "timed_out"
        case .transport(.cancelled), .cancelled: "cancelled"
        case .transport(.offline): "offline"
        case .transport(.interrupted): "interrupted"
        case .transport(.bodyTooLarge): "answer_too_large"
        case .transport(.invalid): "invalid_exchange"
        case .transport(.intercepted): "intercepted"
        case .decoding: "decoding"
        case .store: "store"
        case .outcomeUnknown: "outcome_unknown"
        case .balanceUnsettled: "balance_unsettled"
        case .userChanged: "user_changed"
        case .closed: "closed"
        case .notConfigured: "not_configured"
        case .invalidDeclaration: "invalid_declaration"
        case .signInRefused: "sign_in_refused"
        case .queueFull: "queue_full"
        case .outboxFull: "outbox_full"
        case .conflictingQuery: "conflicting_query"
        case .rangeTooLong: "range_too_long"
        case .queryFailed: "query_failed"
        }
    }
}

extension SanguineError {
    /// Operations are decoded after a restart, so their types must be registered.
    ///
    /// - Parameters:
    ///   - name: The mutation's name.
    ///   - type: Its type, if it is known: not for an operation of an earlier version of the app.
    /// - Returns: The error, which says how to register it.
    static func unregistered(_ name: String, _ type: Any.Type? = nil) -> SanguineError {
        let cure =
            type.map { "Call configuration.register(\($0).self) before creating the client" }
                ?? """
                An earlier version of the app performed it. Call register(_:) of \
                SanguineClient.Configuration with its type before creating the client, or discard \
                the operation
                """
        return .invalidDeclaration("No mutation '\(name)' is registered. \(cure).")
    }

    /// A mutation must not change values that the client derives itself.
    static func unchangeable(_ query: String, by mutation: String) -> SanguineError {
        .invalidDeclaration(
            """
            The mutation '\(mutation)' changes '\(query)', which follows the server and the \
            running calls. Remove that update from its effects(on:).
            """
        )
    }
}

extension SanguineError: CustomStringConvertible {
    /// The failure, and what to do next.
    public var description: String {
        switch self {
        case .problem(let problem): problem.description
        case .transport(let error): error.description
        case .timedOut(let last):
            "The read took too long, and its last attempt failed: \(last)"
        case .decoding(let detail):
            "The response does not fit its declaration: \(detail). Compare the type with the API."
        case .store(let error): error.description
        case .outcomeUnknown(let operation):
            """
            It is unknown whether operation \(operation) was applied, because its response was \
            lost. Fetch and show the values that it changes.
            """
        case .balanceUnsettled:
            """
            Too many running calls change the balance. Observe it, or fetch it again when some of \
            them have ended.
            """
        case .userChanged:
            "The user signed out or changed in the meantime. Try again for the current user."
        case .cancelled: "The calling task was cancelled."
        case .closed: "The client is closed. Create a new one."
        case .notConfigured(let missing):
            "The client's configuration lacks \(missing). Set it in SanguineClient.Configuration."
        case .invalidDeclaration(let fault): fault
        case .signInRefused(let reason): "The sign-in was refused. \(reason)."
        case .queueFull(let limit):
            """
            \(limit) reads already wait for this host. Start fewer at once: combine lookups in a \
            Batch, prefetch less, or raise the priority of visible queries.
            """
        case .outboxFull(let limit):
            """
            The outbox contains \(limit) operations, with refused ones. Connect to the network or \
            discard refused operations, then try again.
            """
        case .conflictingQuery(let name):
            """
            Two queries with values of different types are named '\(name)'. Give each its own name.
            """
        case .rangeTooLong(let limit):
            "More than \(limit) indices were requested at once. Request only the visible ones."
        case .queryFailed(let failure):
            "The query failed: \(failure)\(failure.description.hasSuffix(".") ? "" : ".")"
        }
    }
}
