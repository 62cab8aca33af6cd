package import SanguineModel

// `/v1/balance`, `/v1/quotas`, `/v1/spend`, `/v1/holds` and `/v1/ledger`.
extension Endpoints {
    var balances: [Endpoint] {
        [
            Endpoint("GET", "balance", balance).brief,
            Endpoint("GET", "quotas", quotas).brief,
            Endpoint("POST", "quotas/:name/consume", consume).brief,
            Endpoint("POST", "spend", spend).brief,
            Endpoint("POST", "holds", hold).brief,
            Endpoint("POST", "holds/:id/capture", capture).brief,
            Endpoint("POST", "holds/:id/release", release).brief,
            Endpoint("GET", "ledger", ledger),
            Endpoint("GET", "ledger/summary", summary),
            Endpoint("GET", "ledger/export", export),
        ]
    }

    @Sendable
    private func balance(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let operations = try request.query.operations()
        let identity = try await admission.read(request)
        guard let operations else {
            let (body, head) = try await authority.balanceJSON(identity.account)
            return .read(body, at: head, to: request)
        }
        guard operations.allSatisfy(\.isIdempotencyKey) else {
            throw Problem(.malformedRequest, "Set 'operations' to idempotency keys.")
        }
        let balance = try await authority.balance(
            identity.account,
            operations: operations.map(String.init)
        )
        return .read(ResponseEncoder.encode(balance), at: balance.head, to: request)
    }

    @Sendable
    private func quotas(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let identity = try await admission.read(request)
        let (quotas, head) = try await authority.quotas(identity.account)
        // A client with calls in flight needs to know the head of these quotas.
        return .read(ResponseEncoder.encode(quotas), at: head, to: request)
    }

    @Sendable
    private func consume(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let admitted = try await admission.submit(request, as: ConsumeRequest.self) {
            String($0.amount ?? 1)
        }
        let name = request.parameter("name") ?? ""
        return .answer(
            try await authority.consume(name, admitted.identity.account, admitted.submission)
        )
    }

    @Sendable
    private func spend(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let labels = try request.chargeLabels()
        var admitted = try await admission.submit(
            request,
            as: SpendRequest.self,
            meaning: \.meaning
        )
        admitted.submission.labels = labels
        return .answer(try await authority.spend(admitted.identity.account, admitted.submission))
    }

    @Sendable
    private func hold(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let labels = try request.chargeLabels()
        var admitted = try await admission.submit(request, as: HoldRequest.self) {
            "\($0.amount) \($0.expiresIn.map(String.init) ?? "")"
        }
        admitted.submission.labels = labels
        return .answer(try await authority.hold(admitted.identity.account, admitted.submission))
    }

    @Sendable
    private func capture(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let admitted = try await admission.submit(request, as: CaptureRequest.self) {
            String($0.amount)
        }
        return .answer(
            try await authority.capture(
                holdID(request),
                admitted.identity.account,
                admitted.submission
            )
        )
    }

    @Sendable
    private func release(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let admitted = try await admission.submit(request, as: EmptyBody.self) { _ in "" }
        let submission = Submission<Void>(
            key: admitted.submission.key,
            fingerprint: admitted.submission.fingerprint,
            content: admitted.submission.content.map { _ in }
        )
        return .answer(
            try await authority.release(holdID(request), admitted.identity.account, submission)
        )
    }

    @Sendable
    private func ledger(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let query = try WireListQuery(request.query)
        let identity = try await admission.read(request)
        let page = try await authority.ledger(
            of: identity.account,
            limit: query.limit,
            cursor: query.cursor
        )
        return query.answer(to: request, page)
    }

    @Sendable
    private func summary(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let identity = try await admission.read(request)
        let query = try SummaryQuery(request.query)
        let summary = try await authority.summary(of: identity.account, query)
        guard LedgerFormat(accept: request.field(.accept)) == .csv else {
            return .read(summary, to: request)
        }
        guard summary.nextCursor == nil else {
            throw Problem(
                .malformedRequest,
                """
                Request fewer days without a 'limit', or pages as JSON: a CSV has all groups, at \
                most \(SummaryQuery.largestPage).
                """
            )
        }
        return .read(
            summary.csv,
            tag: WireResponse.tag(of: summary.csv),
            isPersonal: true,
            type: LedgerFormat.csv.mediaType,
            to: request
        )
    }

    @Sendable
    private func export(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let identity = try await admission.read(request)
        let format = LedgerFormat(accept: request.field(.accept))
        return try await authority.export(of: identity.account, as: format).response()
    }

    private func holdID(_ request: any WireRequest) throws(Problem) -> Identifier {
        guard let id = request.parameter("id").flatMap({ Identifier($0) }) else {
            throw Problem(.notFound, "Use the 'id' of a hold that this account placed.")
        }
        return id
    }
}

extension GrantRequest {
    /// The text for the fingerprint; without an expiry time, that of a ``SpendRequest``.
    package var meaning: String { "\(amount) \(reason)" + (expiresAt.map { " until \($0)" } ?? "") }
}

extension SpendRequest {
    /// The text for the fingerprint, which distinguishes a repetition from another request.
    package var meaning: String { "\(amount) \(reason)" }
}

/// `{}`.
package struct EmptyBody: Codable, Sendable {}
