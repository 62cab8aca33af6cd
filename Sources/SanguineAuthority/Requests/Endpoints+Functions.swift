import SanguineModel

// `/v1/functions` and `/v1/calls`.
extension Endpoints {
    var functions: [Endpoint] {
        [
            Endpoint("GET", "functions", descriptions).brief,
            Endpoint("POST", "functions/:name/quote", quote).brief,
            Endpoint("POST", "functions/:name", call).brief,
            Endpoint("GET", "calls/:key", findCall).brief,
            Endpoint("DELETE", "calls/:key", cancelCall).brief,
        ]
    }

    @Sendable
    private func descriptions(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        _ = try await admission.read(request)
        return .read(Items(items: calls.descriptions), isPersonal: false, to: request)
    }

    @Sendable
    private func quote(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let (identity, body) = try await admission.body(
            request,
            as: FunctionRequest<JSONValue>.self
        )
        let name = request.parameter("name") ?? ""
        return .changed(try await calls.quote(name, identity, body), head: nil)
    }

    @Sendable
    private func call(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let (reader, labels) = (try AnswerForm(request), try request.chargeLabels())
        var admitted = try await admission.submit(
            request,
            as: FunctionRequest<JSONValue>.self,
            meaning: Self.meaning
        )
        admitted.submission.labels = labels
        return .reply(
            try await calls.call(
                request.parameter("name") ?? "",
                admitted.identity,
                from: request.address,
                admitted.submission,
                as: reader
            ),
            to: admitted.submission.key
        )
    }

    /// Returns the text for the fingerprint of a call.
    static func meaning(_ request: FunctionRequest<JSONValue>) -> String {
        String(decoding: ResponseEncoder.encode(request), as: UTF8.self)
    }

    @Sendable
    private func findCall(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let reader = try AnswerForm(request)
        let position = try await position(request)
        return .reply(
            try await calls.find(position, from: request.address, as: reader),
            to: position.key
        )
    }

    @Sendable
    private func cancelCall(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let ending = try await calls.cancel(try await position(request))
        return .changed(ending, head: ending.balance.head)
    }

    private func position(_ request: any WireRequest) async throws(Problem) -> OperationPosition {
        let identity = try await admission.read(request)
        return OperationPosition(
            account: identity.account,
            key: request.parameter("key") ?? ""
        )
    }
}

extension AnswerForm {
    /// Reads the requested form of the answer: parts for a request that accepts server-sent events,
    /// starting after `Last-Event-ID`.
    init(_ request: any WireRequest) throws(Problem) {
        let accepted = request.field(.accept) ?? WireResponse.json
        guard accepted != WireResponse.json,
            accepted.lowercased().contains(WireResponse.eventStream)
        else {
            self = .plain
            return
        }
        guard let text = request.field(.lastEventID), !text.isEmpty else {
            self = .parts(after: nil)
            return
        }
        guard let index = Int64(text), (0...Self.largestIndex).contains(index) else {
            throw Problem(
                .malformedRequest,
                "Set 'Last-Event-ID' to the id of an event of the stream, or leave it out."
            )
        }
        self = .parts(after: index)
    }

    private static let largestIndex: Int64 = 1 << 40
}

extension WireResponse {
    /// Creates the response to the call with the key.
    static func reply(_ reply: CallReply, to key: String) -> WireResponse {
        switch reply {
        case .answer(let answer, let origin):
            var wire = WireResponse.answer(answer)
            wire.fields.append((.sanguineCall, key))
            if answer.stored.status == 200 { wire.fields += origin.fields }
            return wire
        case .events(let events, let origin):
            var fields = [
                (field: WireField.contentType, value: eventStream),
                (.cacheControl, "no-store"), (.accelBuffering, "no"), (.sanguineCall, key),
            ]
            if let head = events.stored?.head { fields.append((.sanguineHead, String(head))) }
            if origin == .replayed { fields.append((.idempotencyReplayed, "true")) }
            var wire = WireResponse(status: 200, fields: fields + origin.fields)
            wire.stream = WireStream(events)
            return wire
        }
    }
}

extension CallReply.Origin {
    /// The fields `Cache-Status` (RFC 9211) and `Age` (RFC 9111, section 5.1).
    var fields: [(field: WireField, value: String)] {
        switch self {
        case .cache(let age, let rest):
            let life = rest.map { "; ttl=\($0.components.seconds)" } ?? ""
            return [
                (.cacheStatus, "sanguine; hit\(life)"), (.age, String(age.components.seconds)),
            ]
        case .run(isKept: true): return [(.cacheStatus, "sanguine; fwd=miss; stored")]
        case .missed: return [(.cacheStatus, "sanguine; fwd=miss")]
        case .run(isKept: false): return [(.cacheStatus, "sanguine; fwd=bypass")]
        case .shared: return [(.cacheStatus, "sanguine; fwd=miss; collapsed")]
        case .replayed: return [(.cacheStatus, "sanguine; fwd=bypass; detail=replayed")]
        }
    }
}
