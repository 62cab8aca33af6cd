import SanguineModel

// `/v1/functions`.
extension Endpoints {
    var functions: [Endpoint] {
        [
            Endpoint("GET", "functions", descriptions),
            Endpoint("POST", "functions/:name/quote", quote),
            Endpoint("POST", "functions/:name", call),
        ]
    }

    @Sendable
    private func descriptions(_ request: any WireRequest) async throws(Problem) -> WireAnswer {
        _ = try await admission.read(request)
        return .read(Items(items: calls.descriptions), isPersonal: false, to: request)
    }

    @Sendable
    private func quote(_ request: any WireRequest) async throws(Problem) -> WireAnswer {
        let (_, body) = try await admission.body(request, as: FunctionRequest<JSONValue>.self)
        return .changed(try calls.quote(request.parameter("name") ?? "", body), head: nil)
    }

    @Sendable
    private func call(_ request: any WireRequest) async throws(Problem) -> WireAnswer {
        let admitted = try await admission.submit(
            request,
            as: FunctionRequest<JSONValue>.self
        ) {
            String(decoding: AnswerEncoder.encode($0), as: UTF8.self)
        }
        let answer = try await calls.call(
            request.parameter("name") ?? "",
            admitted.account,
            from: request.address,
            admitted.submission
        )
        var wire = WireAnswer.answer(answer)
        if answer.stored.status == 200 {
            // RFC 9211: no function is cached.
            wire.fields.append((.cacheStatus, "sanguine; fwd=bypass"))
        }
        return wire
    }
}
