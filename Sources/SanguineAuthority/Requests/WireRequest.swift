package import SanguineModel

/// A request as the endpoints read it, whatever it came by.
///
/// The server makes one of HTTP, the test kit one of what a client hands to its transport.
package protocol WireRequest: Sendable {
    /// The method, in upper case.
    var method: String { get }
    /// The path as it came; with the method it tells requests under one idempotency key apart.
    var path: String { get }
    /// Where the request came from, as it counts for limits; `nil` if from nowhere.
    var address: String? { get }
    /// The parameters behind the path.
    var query: WireQuery { get }

    /// The value of a header field, or `nil`.
    func field(_ field: WireField) -> String?

    /// The part of the path that an ``Endpoint/path`` names so, percent-decoded; `nil` if it has no
    /// such part.
    func parameter(_ name: String) -> String?

    /// The whole body, which is JSON by its type; none at all counts as `{}`.
    ///
    /// - Throws: `body_too_large`, `unsupported_media_type`, `malformed_body`.
    func body() async throws(Problem) -> [UInt8]

    /// The whole body as it is, of any type: at most what a file may have.
    ///
    /// - Throws: `body_too_large`, `unsupported_media_type` for an encoded one, `malformed_body`,
    ///   `overloaded`.
    func file() async throws(Problem) -> [UInt8]

    /// Counts the request against the account's rate.
    ///
    /// - Throws: `rate_limited`.
    func admit(_ identity: Identity) throws(Problem)

    /// Counts a request that nobody has signed against the rate of where it came from.
    ///
    /// - Throws: `rate_limited`.
    func admitAnonymous() throws(Problem)

    /// Refuses to do more for where the request came from, if that has cost too much already.
    ///
    /// - Throws: `rate_limited`.
    func checkAddress() throws(Problem)

    /// Counts processor time that was spent on a request that nobody has signed.
    func charge(_ time: Duration)
}
