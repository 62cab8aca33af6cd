import Foundation
public import SanguineModel

/// A call whose answer the app has not read.
///
/// ```swift
/// for call in client.openCalls where call.function == Ask.name {
///     show(call.input(of: Ask.self)?.question)
///     show(try await client.result(of: Ask.self, key: call.key).output)
/// }
/// ```
public struct OpenCall: Hashable, Codable, Sendable, Identifiable {
    /// The state of a call, as far as this device knows.
    public enum State: Hashable, Codable, Sendable {
        /// It waits for a network, and is sent as soon as there is one.
        case waiting
        /// It was sent, or is about to be.
        case running
        /// It succeeded.
        case answered
        /// It failed.
        case failed(Problem)
    }

    /// The idempotency key of the call, which identifies it in later requests.
    public let key: String
    /// The function's name.
    public let function: String
    /// The time at which it was begun, by the device's clock.
    public let begunAt: Timestamp
    /// The state of the call.
    public internal(set) var state: State
    /// Whether it is resent until it is answered.
    var isQueued: Bool
    /// Whether its request is too large to be kept once it is sent; `nil` if not.
    let isLarge: Bool?
    /// The time that ``OpenCallBook`` had counted when it began; `nil` for none.
    var begunAfter: Duration?
    /// The body of its request; `nil` if it is kept elsewhere, or too large to keep.
    var request: Data?

    /// The call's key.
    public var id: String { key }

    /// Whether its request is stored, in order to be sent or shown.
    var keepsRequest: Bool { isLarge != true || isQueued && !hasEnded }

    var hasEnded: Bool {
        switch state {
        case .waiting, .running: false
        case .answered, .failed: true
        }
    }

    init(
        key: String,
        function: String,
        begunAt: Timestamp,
        state: State,
        isQueued: Bool,
        request: Data? = nil
    ) {
        self.key = key
        self.function = function
        self.begunAt = begunAt
        self.state = state
        self.isQueued = isQueued
        isLarge = (request?.count ?? 0) > BalanceLimits.keptRequestBytes ? true : nil
        self.request = request
    }

    /// The ids of the files that are attached to the call; empty if it has none, or if its body is
    /// not kept.
    public var attachments: [String] {
        let body = request.flatMap {
            try? StoredForm.arguments.decode(FunctionRequest<JSONValue>.self, from: $0)
        }
        return body?.attachments ?? []
    }

    /// Returns the input of the call, to show the question with the answer after a restart.
    ///
    /// The input is kept on disk with the call, and removed with it. An input that another version
    /// of the app has stored is read with the defaults and migrations of its type.
    ///
    /// - Parameter call: The function.
    /// - Returns: The input; `nil` if the call is of another function, if its input cannot be
    ///   decoded, or if the body is larger than 64 KiB.
    public func input<Call: FunctionCall>(of call: Call.Type) -> Call.Input? {
        guard function == Call.name, let request else { return nil }
        let form = StoredForm.arguments
        return try? form.decode(FunctionRequest<Call.Input>.self, from: request).input
    }
}
