import Foundation
import NIOHTTP1
import SanguineModel

/// A call in a thread under a key of its own, which a kill may cut off, and which is sent again
/// afterwards.
struct ThreadCall: Hashable, Sendable {
    /// The way in which it is called, and in which it ends if nothing is killed.
    enum Kind: String, CaseIterable, Sendable {
        /// Its answer comes in one piece.
        case whole
        /// Its answer comes word by word.
        case streamed
        /// It costs nothing.
        case free
        /// The model refuses it.
        case failing
        /// Its reader ends it after some words.
        case cut
    }

    /// The end of a call.
    struct Answer: Hashable, Sendable {
        /// 200 for an answer; the status of a problem.
        let status: Int
        let charged: Int64
    }

    /// The number of words of an answer.
    static let words = 40

    let number: Int
    let kind: Kind
    let thread: Identifier
    /// The idempotency key.
    let key: String

    var function: String { kind == .free ? "free" : "ask" }
    var question: String { "id=\(kind.rawValue)-\(number) words=\(Self.words)" }

    /// Sends the call.
    ///
    /// - Returns: Its end, or `nil` if the connection broke before.
    func send(to api: API, as guest: API.Guest) async throws -> Answer? {
        switch kind {
        case .whole, .free, .failing: await sendWhole(to: api, as: guest)
        case .streamed, .cut: try await read(from: api, as: guest)
        }
    }

    private func sendWhole(to api: API, as guest: API.Guest) async -> Answer? {
        let body = FunctionRequest(input: Ask.Input(question: question), thread: thread)
        guard
            let answer = try? await api.send(
                .POST,
                "/v1/functions/\(function)",
                token: guest.token,
                key: key,
                json: body
            )
        else { return nil }
        let charged = (try? answer.decode(JSONValue.self))?["charged"]?.integer
        return Answer(status: answer.status, charged: charged ?? 0)
    }

    private func read(from api: API, as guest: API.Guest) async throws -> Answer? {
        let request = try api.streamed(function, question, key: key, as: guest, in: thread)
        var seen = SeenStream()
        var hasCut = false
        let status = await api.read(request, into: &seen) { seen in
            guard kind == .cut, !hasCut, seen.parts > 2 else { return true }
            hasCut = true
            _ = try? await api.send(.DELETE, "/v1/calls/\(key)", token: guest.token)
            return true
        }
        guard let status else { return nil }
        guard status == 200 else { return Answer(status: status, charged: 0) }
        guard let end = seen.end else { return nil }
        return Answer(status: Int(end["status"]?.integer ?? 200), charged: seen.charged)
    }
}
