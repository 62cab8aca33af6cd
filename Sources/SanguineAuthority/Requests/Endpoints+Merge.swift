import SanguineModel

// `/v1/accounts/merge`.
extension Endpoints {
    var merges: [Endpoint] {
        [
            Endpoint("POST", "accounts/merge/preview", previewMerge),
            Endpoint("POST", "accounts/merge", merge),
            Endpoint("GET", "account/guests", listGuests),
        ]
    }

    @Sendable
    private func previewMerge(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let (guest, body) = try await admission.body(request, as: SessionRequest.self)
        let account = try await authority.account(
            proving: try body.get(),
            from: request.address
        )
        return .changed(try await authority.previewMerge(of: guest, into: account), head: nil)
    }

    @Sendable
    private func merge(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let (guest, body) = try await admission.merging(request, as: MergeRequest.self)
        let (signedIn, head) = try await authority.merge(guest, try body.get())
        return .changed(signedIn, head: head)
    }

    /// The number of guests that one request asks about.
    private static let askedGuests = 20

    @Sendable
    private func listGuests(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let identity = try await admission.read(request)
        let names = (request.query["ids"] ?? "").split(separator: ",")
        let ids = names.compactMap { Identifier(String($0)) }
        guard (1...Self.askedGuests).contains(names.count), ids.count == names.count else {
            throw Problem(
                .malformedRequest,
                "Set 'ids' to the ids of 1 to \(Self.askedGuests) guests, separated by commas."
            )
        }
        return .read(try await authority.guests(of: identity.account, among: ids), to: request)
    }
}
