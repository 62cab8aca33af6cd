package import SanguineModel

/// A request to an endpoint, independent of its transport.
///
/// The server creates it from HTTP, the test kit from a request of a client's transport.
package protocol WireRequest: Sendable {
    /// The method, in upper case.
    var method: String { get }
    /// The path as received; part of the fingerprint, together with the method.
    var path: String { get }
    /// The address that counts for limits; `nil` if there is none.
    var address: String? { get }
    /// The query parameters.
    var query: WireQuery { get }

    /// Returns the value of a header field, or `nil`.
    func field(_ field: WireField) -> String?

    /// Returns the percent-decoded path component for a parameter of ``Endpoint/path``; `nil` if
    /// there is none.
    func parameter(_ name: String) -> String?

    /// Reads the whole body, whose type must be JSON; an empty one counts as `{}`.
    ///
    /// - Throws: `body_too_large`, `unsupported_media_type`, `malformed_body`.
    func body() async throws(Problem) -> [UInt8]

    /// Reads the whole body, of any type and up to the size limit of files.
    ///
    /// - Throws: `body_too_large`, `unsupported_media_type` for an encoded one, `malformed_body`,
    ///   `overloaded`.
    func file() async throws(Problem) -> [UInt8]

    /// The maximum size of an uploaded file in bytes.
    var fileLimit: Int { get }

    /// Reads the body of any type part by part, as it arrives.
    ///
    /// - Parameters:
    ///   - limit: The maximum number of bytes.
    ///   - receive: Called with each part; the next one is read when it returns.
    /// - Throws: `body_too_large`, `unsupported_media_type` for an encoded one, `malformed_body`
    ///   for one that ends early, or the problem of `receive`.
    func parts(
        upTo limit: Int,
        _ receive: ([UInt8]) async throws(Problem) -> Void
    ) async throws(Problem)

    /// Reserves memory for a file until the request is answered, besides what it has reserved.
    ///
    /// - Throws: `overloaded`.
    func reserve(_ count: Int) throws(Problem)

    /// Counts the request against the account's rate.
    ///
    /// - Throws: `rate_limited`.
    func admit(_ identity: Identity) throws(Problem)

    /// Counts a request without a valid token against the rate of its address.
    ///
    /// - Throws: `rate_limited`.
    func admitAnonymous() throws(Problem)

    /// Refuses the request if earlier ones from its address have cost too much.
    ///
    /// - Throws: `rate_limited`.
    func checkAddress() throws(Problem)

    /// Counts the processor time of a request without a valid token.
    func charge(_ time: Duration)
}

// For requests whose bodies are in memory, as in tests.
extension WireRequest {
    package var fileLimit: Int { WireLimits.blobBytes }

    package func parts(
        upTo limit: Int,
        _ receive: ([UInt8]) async throws(Problem) -> Void
    ) async throws(Problem) {
        let bytes = try await file()
        guard bytes.count <= limit else { throw WireBody.tooLarge(limit) }
        if !bytes.isEmpty { try await receive(bytes) }
    }

    package func reserve(_ count: Int) throws(Problem) {}
}
