import Foundation
public import Sanguine
import SanguineAuthority
import SanguineModel

// Requests and responses.
extension InMemoryAuthority {
    /// Answers a request, with any status.
    ///
    /// Cancelling the task abandons the response, but stops no work on the server.
    public func send(
        _ request: TransportRequest
    ) async throws(TransportError) -> TransportResponse {
        guard !Task.isCancelled else { throw .cancelled }
        return try await Reply.of { [self] in await answer(request) }
    }

    /// Opens a live connection or a streamed answer.
    ///
    /// Any other response is a stream that has ended.
    ///
    /// A streamed answer is produced as it is read, without reading ahead.
    public func stream(
        _ request: TransportRequest
    ) async throws(TransportError) -> TransportStream {
        guard !Task.isCancelled else { throw .cancelled }
        guard request.path == "/v1/live", request.method == "GET" else {
            let answer = try await Reply.of { [self] in await wireAnswer(request) }
            guard let body = answer.stream else { return Self.ended(response(answer)) }
            return Self.opened(response(answer), body)
        }
        do throws(Problem) {
            return try await live(request)
        } catch {
            return Self.ended(response(.problem(error)))
        }
    }

    /// Answers a request, for example for a ``ScriptedTransport``.
    ///
    /// A streamed answer is complete when this method returns.
    public func answer(_ request: TransportRequest) async -> TransportResponse {
        var answer = await wireAnswer(request)
        if let body = answer.stream {
            if request.method != "HEAD" {
                while let bytes = await body.next() { answer.body += bytes }
            }
            body.close()
        }
        return response(answer)
    }

    private func response(_ answer: WireResponse) -> TransportResponse {
        let headers = answer.fields.map { ($0.field.rawValue, $0.value) }
        return TransportResponse(
            status: answer.status,
            headers: Dictionary([("X-Request-Id", requestID())] + headers) { first, _ in first },
            body: Data(answer.body)
        )
    }

    private func requestID() -> String {
        state.withLock { state in
            state.responses += 1
            return "response-\(state.responses)"
        }
    }

    private func wireAnswer(_ request: TransportRequest) async -> WireResponse {
        do throws(Problem) {
            try failIfAsked(request)
            guard request.path != "/v1/live" else {
                throw Problem(.malformedRequest, "Request '/v1/live' as a stream.")
            }
            let isJoining = try join(request)
            var answer = try await router.answer(request)
            if let account = isJoining, answer.status == 200 {
                answer.status = 201
                let head = must { try memory.head(of: account) }
                answer.fields.append((.sanguineHead, String(head)))
            }
            return answer.stamped(with: authority.storage.epoch)
        } catch {
            return .problem(error)
        }
    }

    private func failIfAsked(_ request: TransportRequest) throws(Problem) {
        let (problem, poison) = state.withLock { state -> (Problem?, Set<Identifier>) in
            let isFailing = state.failures[request.path]?.isEmpty == false
            return (isFailing ? state.failures[request.path]?.removeFirst() : nil, state.poison)
        }
        if let problem { throw problem }
        guard !poison.isEmpty, request.path == "/v1/sync/push",
            let body = try? JSONDecoder().decode(PushRequest.self, from: request.body ?? Data()),
            !poison.isDisjoint(with: body.operations.map(\.id))
        else { return }
        throw Problem(.malformedBody, "Do not send operations that the test declared poison.")
    }

    /// Creates the account of a device that has none, which the sign-in then finds.
    ///
    /// The ids of accounts follow from the order of their creation, so that a seed reproduces them.
    ///
    /// - Returns: The account, or `nil` for a known device, for a device that proves its guest by
    ///   an app transaction, and for other requests.
    private func join(_ request: TransportRequest) throws(Problem) -> Identifier? {
        guard request.path == "/v1/accounts/guest", request.method == "POST",
            let guest = try? JSONDecoder().decode(GuestRequest.self, from: request.body ?? Data()),
            guest.signedAppTransaction == nil, try memory.needsAccount(guest)
        else { return nil }
        let now = clock.now()
        let assigned = state.withLock { state -> (account: Identifier, isFirst: Bool)? in
            let isFirst = !state.hasDevice
            state.hasDevice = true
            if isFirst || mode == .one { return (user, isFirst) }
            guard state.accounts < TestingLimits.accounts else { return nil }
            return (state.newIdentifier(at: now), false)
        }
        guard let assigned else {
            throw Problem(.overloaded, "Use an authority with fewer accounts.")
        }
        do throws(Problem) {
            let isNew =
                if assigned.account == user {
                    try memory.join(guest, to: user, isFirst: assigned.isFirst)
                } else {
                    try memory.addAccount(assigned.account, for: guest)
                }
            return isNew ? assigned.account : nil
        } catch {
            // The endpoint reports the error.
            if assigned.isFirst { state.withLock { $0.hasDevice = false } }
            return nil
        }
    }

    // MARK: - Live

    private func live(_ request: TransportRequest) async throws(Problem) -> TransportStream {
        try failIfAsked(request)
        let wire = InMemoryRequest(request: request)
        let position = try Endpoints.livePosition(wire)
        let config = try Endpoints.liveConfig(wire)
        let lists = try Endpoints.liveLists(wire)
        let pass = try await router.admission.live(wire)
        let requestID = requestID()
        let stream = state.withLock { state -> TransportStream? in
            guard state.streams.count < TestingLimits.streams else { return nil }
            let number = state.random.next()
            let stream = TransportStream(
                response: TransportResponse(
                    status: 200,
                    headers: [
                        "content-type": "text/event-stream", "cache-control": "no-store",
                        "x-accel-buffering": "no",
                        "sanguine-epoch": authority.storage.epoch.text,
                        "x-request-id": requestID,
                    ]
                ),
                onCancel: { [weak self] in self?.state.withLock { $0.streams.remove(number) } }
            )
            state.streams.add(
                number,
                stream,
                pass,
                at: position,
                knowing: config,
                following: lists,
                memory
            )
            return stream
        }
        guard let stream else {
            throw Problem(.overloaded, "End live connections first.", retryAfter: 30)
        }
        writeToStreams()
        return stream
    }

    /// Delivers a committed change of an account to its live connections.
    func notifyReaders(of account: Identifier) {
        state.withLock { $0.streams.changed(account, memory) }
        writeToStreams()
    }

    /// Delivers notes of changed lists to the live connections that show one.
    func notifyReaders(ofLists changed: ChangedLists) {
        state.withLock { $0.streams.listsChanged(changed) }
        writeToStreams()
    }

    /// Delivers changed switches to all live connections.
    func notifyReadersOfSwitches() {
        state.withLock { $0.streams.switched(memory) }
        writeToStreams()
    }

    /// Writes enqueued events in order.
    ///
    /// Concurrent callers leave their events to the current one.
    func writeToStreams() {
        guard state.withLock({ $0.streams.begin() }) else { return }
        while let delivery = state.withLock({ $0.streams.next() }) {
            if !delivery.bytes.isEmpty { delivery.stream.receive(delivery.bytes) }
        }
    }

    /// Reads an answer event by event, at its client's pace.
    private static func opened(_ head: TransportResponse, _ body: WireStream) -> TransportStream {
        let stream = TransportStream(response: head, onCancel: { body.close() })
        Task { [weak stream, room = stream.demand] in
            while let bytes = await body.next() {
                for event in bytes.events {
                    stream?.receive(event)
                    await room.wait()
                }
            }
            body.close()
            stream?.finish()
        }
        return stream
    }

    private static func ended(_ response: TransportResponse) -> TransportStream {
        var head = response
        head.body = Data()
        let stream = TransportStream(response: head, onCancel: {})
        stream.receive(response.body)
        stream.finish()
        return stream
    }
}

extension [UInt8] {
    /// The bytes of each event, which an empty line ends.
    fileprivate var events: [Data] {
        var events: [Data] = []
        var event = Data()
        for byte in self {
            event.append(byte)
            if event.suffix(2) == Data("\n\n".utf8) {
                events.append(event)
                event = Data()
            }
        }
        return event.isEmpty ? events : events + [event]
    }
}
