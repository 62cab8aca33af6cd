import Foundation
import SanguineMedia
import SanguineModel

/// Loads image files from the Sanguine server and other hosts, with retries.
struct ImageFetcher: Sendable {
    /// An image file that a host has sent.
    struct File: Sendable {
        let data: Data
        let freshness: ImageFreshness
    }

    /// The outcome of a request.
    enum Answer: Sendable {
        case file(File)
        /// The known file is still the current one.
        case unchanged(ImageFreshness)
    }

    let attempts: ReadAttempts
    let clock: any WallClock
    /// Counts a request and the bytes of its response.
    let count: @Sendable (_ bytes: Int) -> Void

    private static let name = "$image"
    private static let accept = "image/avif,image/webp,image/heic,image/*"
    private static let policy = Policy.fresh(for: .zero)

    /// Loads a file.
    ///
    /// - Parameters:
    ///   - source: The address.
    ///   - side: The longest side that is requested from the server; 0 for the original. Other
    ///     hosts send what they have.
    ///   - known: The rules of a stale file, to ask whether it has changed.
    ///   - priority: The priority of the request.
    /// - Returns: The file, or that it has not changed.
    /// - Throws: ``SanguineError``: `unsupported_media_type` if the response is not an image that
    ///   the client knows; `body_too_large` for too many bytes or pixels.
    func load(
        _ source: ImageSource,
        side: Int,
        known: ImageFreshness?,
        priority: RequestPriority
    ) async throws(SanguineError) -> Answer {
        let conditions = known?.conditions ?? [:]
        switch source.address {
        case .file(let id):
            guard BlobAddress.isValid(id) else { throw .problem(.unknownImage) }
            let response = try await file(id, side: side, priority)
            return .file(try File(response, ImageFreshness.immutable))
        case .url(let url):
            try check(url)
            let response = try await get(url, conditions, priority)
            let freshness = ImageFreshness(response, at: clock.now())
            if response.status == 304 { return .unchanged(freshness) }
            return .file(try File(response, freshness))
        }
    }

    private func file(
        _ id: String,
        side: Int,
        _ priority: RequestPriority
    ) async throws(SanguineError) -> TransportResponse {
        let path = "/v1/blobs/\(id)"
        var query: [URLQueryItem] = []
        if side > 0 {
            query = [
                URLQueryItem(name: "w", value: "\(side)"),
                URLQueryItem(name: "h", value: "\(side)"),
            ]
        }
        do throws(SanguineError) {
            return try await send(path, query, priority, toServer: true)
        } catch {
            // A server that makes no thumbnails sends the original, which is scaled down here.
            guard side > 0, case .problem(let problem) = error,
                [.malformedRequest, .invalidContent].contains(problem.code)
            else { throw error }
            return try await send(path, [], priority, toServer: true)
        }
    }

    /// Gets a URL, and follows redirects, also to other hosts.
    private func get(
        _ url: URL,
        _ conditions: [String: String],
        _ priority: RequestPriority
    ) async throws(SanguineError) -> TransportResponse {
        var url = url
        for _ in 0...ImageLimits.redirects {
            let response = try await send(url.absoluteString, [], priority, headers: conditions)
            guard let next = response.imageRedirect(from: url) else { return response }
            // Checked again: a redirect must not lead to an address without encryption.
            try check(next)
            url = next
        }
        throw .transport(
            .invalid("the image's address leads to more than \(ImageLimits.redirects) others.")
        )
    }

    private func send(
        _ path: String,
        _ query: [URLQueryItem],
        _ priority: RequestPriority,
        headers: [String: String] = [:],
        toServer: Bool = false
    ) async throws(SanguineError) -> TransportResponse {
        var headers = headers
        headers["Accept"] = Self.accept
        let plan = FetchPlan(
            name: Self.name,
            policy: Self.policy,
            base: toServer ? attempts.backend.call.server : nil
        )
        let count = count
        let result = await attempts.fetch(plan, priority: priority) {
            [headers] request async throws -> TransportResponse in
            count(0)
            var request = request
            if toServer { request = try request.toServer() }
            do throws(SanguineError) {
                let response = try await request.response(path, query: query, headers: headers)
                count(response.body.count)
                return response
            } catch {
                // These are answers here. As errors, they would be retried.
                guard case .problem(let problem) = error, let response = problem.response,
                    response.isImageRedirect
                        || response.status == 304 && headers.count > 1
                else { throw error }
                return response
            }
        }
        return try result.get()
    }

    /// Throws unless the URL may be loaded.
    private func check(_ url: URL) throws(SanguineError) {
        guard url.absoluteString.utf8.count <= ImageLimits.urlCharacters else {
            throw .transport(.invalid("the image's address is too long. Use a shorter one."))
        }
        if url.scheme?.lowercased() == "https", url.host() != nil { return }
        let own = [attempts.backend.call.server?.origin, attempts.backend.baseURL?.origin]
        guard let origin = url.origin, own.contains(origin) else {
            throw .transport(
                .invalid("the image's address does not begin with https. Use one that does.")
            )
        }
    }
}

extension ImageFetcher.File {
    /// Checks that a response is an image of a size that may be decoded.
    fileprivate init(
        _ response: TransportResponse,
        _ freshness: ImageFreshness
    ) throws(SanguineError) {
        guard response.body.count <= ImageLimits.fileBytes else {
            throw .transport(.bodyTooLarge(limitBytes: ImageLimits.fileBytes))
        }
        guard let header = ImageHeader(response.body) else { throw .problem(.notAnImage) }
        guard header.width <= ImageLimits.sourcePixels / header.height else {
            throw .problem(.tooManyPixels(header))
        }
        (data, self.freshness) = (response.body, freshness)
    }
}

extension TransportResponse {
    /// Whether the response sends the client to another address.
    fileprivate var isImageRedirect: Bool {
        [301, 302, 303, 307, 308].contains(status) && header("location") != nil
    }

    /// Returns the address to which the response sends the client; `nil` if it does not.
    fileprivate func imageRedirect(from url: URL) -> URL? {
        guard isImageRedirect, let target = header("location") else { return nil }
        return URL(string: target, relativeTo: url)?.absoluteURL
    }
}

/// The form of a file's id.
enum BlobAddress {
    /// Whether the text has the form of a file's id: 64 lowercase hexadecimal digits.
    static func isValid(_ id: String) -> Bool {
        id.utf8.count == 64
            && id.utf8.allSatisfy { byte in
                (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
                    || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
            }
    }
}

extension Problem {
    /// The refusal of an id that no file can have.
    static var unknownImage: Problem {
        Problem(.notFound, "Use the id of an uploaded image: 64 lowercase hexadecimal digits.")
    }

    /// The refusal of content that is not an image of a known type.
    static var notAnImage: Problem {
        Problem(
            .unsupportedMediaType,
            "Use a JPEG, PNG, GIF, WebP, HEIC or AVIF image: the file is none of them."
        )
    }

    /// The refusal of a damaged image.
    static var damagedImage: Problem {
        Problem(.malformedBody, "Replace the image: its file is damaged and cannot be decoded.")
    }

    fileprivate static func tooManyPixels(_ header: ImageHeader) -> Problem {
        Problem(
            .bodyTooLarge,
            """
            Use an image of at most \(ImageLimits.sourcePixels) pixels: this one has \
            \(header.width) × \(header.height).
            """
        )
    }
}
