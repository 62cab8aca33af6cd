import SanguineModel

// `/v1/attestation`.
extension Endpoints {
    var attestation: [Endpoint] {
        [Endpoint("GET", "attestation/challenge", challenge).brief]
    }

    @Sendable
    private func challenge(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        try request.admitAnonymous()
        return .changed(try authority.attestationChallenge(), head: nil)
    }
}
