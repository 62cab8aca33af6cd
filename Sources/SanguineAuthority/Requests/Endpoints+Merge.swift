import SanguineModel

// `/v1/accounts/merge`.
extension Endpoints {
    var merges: [Endpoint] {
        [
            Endpoint("POST", "accounts/merge/preview", previewMerge),
            Endpoint("POST", "accounts/merge", merge),
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
}
