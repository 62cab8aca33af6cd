import Foundation
package import SanguineAuthority
import SanguineVips

/// Examines, cleans and scales untrusted images with libvips.
///
/// libvips decodes on a few threads at a low priority, at most one per core, for accounts in turns.
/// An image is decoded when its estimated memory is available. Its pixels are counted from its
/// header first. A cancelled task's image is not decoded, or its decoding ends after a few lines.
///
/// All decoders of libvips except those of JPEG, PNG, WebP and HEIC are blocked in this process.
package struct VipsImages: Sendable {
    /// The instance that the server uses.
    package static let shared = VipsImages()

    /// The memory in bytes that the decoding of all images may take: 144 MiB.
    ///
    /// With the code of libvips and its libraries, this is below 200 MB.
    package static let memoryBytes = 144 << 20

    /// The limits of each image.
    package let limits: DecodingLimits
    /// The memory of the images in progress.
    package let memory: MemoryTurns
    private let threads: LongWork

    /// Creates an instance with its own threads.
    ///
    /// - Parameters:
    ///   - limits: The limits of each image.
    ///   - memory: The memory for all images. Default: ``memoryBytes``.
    ///   - threads: The number of threads. Default: one per core, at least two, at most eight.
    package init(
        limits: DecodingLimits = DecodingLimits(),
        memory: MemoryTurns = MemoryTurns(limit: memoryBytes),
        threads: Int = min(8, max(2, ProcessInfo.processInfo.activeProcessorCount))
    ) {
        self.limits = limits
        self.memory = memory
        self.threads = LongWork(threads: threads)
    }

    /// The version of libvips, such as "8.14.1".
    package static var version: String { String(cString: sanguine_vips_version()) }

    /// The memory for pixels that libvips has not released, in bytes.
    package static var allocatedBytes: Int { sanguine_allocated() }

    /// Reads the header of an image.
    ///
    /// - Parameters:
    ///   - file: The bytes.
    ///   - format: The format that the first bytes indicate.
    ///   - owner: The account whose turn it takes.
    /// - Returns: The facts.
    /// - Throws: `unreadable`, `unsupported`, `cancelled` or `unavailable`.
    package func facts(
        of file: [UInt8],
        as format: ImageFormat,
        for owner: LongWork.Owner
    ) async throws(ImageFailure) -> ImageFacts {
        if Task.isCancelled { throw .cancelled }
        return try await threads.perform(for: owner) { () throws(ImageFailure) in
            var facts = sanguine_facts()
            let status = file.withUnsafeBytes {
                sanguine_examine($0.baseAddress, $0.count, format.code, &facts)
            }
            try Self.check(status, facts)
            return ImageFacts(facts)
        }
    }

    /// Decodes an image and encodes it again without metadata, with its orientation applied.
    ///
    /// The color profile, and the frames and timing of an animated WebP, are kept. A HEIC image
    /// becomes JPEG, or WebP if it has transparency. Of an animated PNG, the still image is kept.
    /// The same bytes have the same result, with the same version of libvips.
    ///
    /// - Parameters:
    ///   - file: The bytes.
    ///   - format: The format that the first bytes indicate.
    ///   - owner: The account whose turn it takes.
    /// - Returns: The new image.
    /// - Throws: ``ImageFailure``.
    package func clean(
        _ file: [UInt8],
        as format: ImageFormat,
        for owner: LongWork.Owner
    ) async throws(ImageFailure) -> EncodedImage {
        let facts = try await facts(of: file, as: format, for: owner)
        guard limits.allow(facts) else { throw .tooLarge(facts) }
        let bytes = Self.memory(of: facts, format, isScaled: false)
        return try await encode(file, facts, bytes, for: owner) { input, bounds, stop, output in
            sanguine_clean(input.baseAddress, input.count, format.code, bounds, stop, &output)
        }
    }

    /// Scales an image down so that its longer side has at most `side` pixels.
    ///
    /// The result is in sRGB, without metadata, with the orientation applied: a JPEG image, or a
    /// WebP image if there is transparency. Of an animation, the first frame is used. A smaller
    /// image keeps its size.
    ///
    /// - Parameters:
    ///   - file: The bytes.
    ///   - format: The format that the first bytes indicate.
    ///   - side: The maximum length of both sides in pixels.
    ///   - owner: The account whose turn it takes.
    /// - Returns: The thumbnail.
    /// - Throws: ``ImageFailure``.
    package func thumbnail(
        of file: [UInt8],
        as format: ImageFormat,
        side: Int,
        for owner: LongWork.Owner
    ) async throws(ImageFailure) -> EncodedImage {
        try await scale(file, format, for: owner) { input, bounds, stop, output in
            sanguine_thumbnail(
                input.baseAddress,
                input.count,
                format.code,
                Int32(clamping: side),
                bounds,
                stop,
                &output
            )
        }
    }

    /// Returns the pixels of an image that is scaled down so that both sides have at most `side`
    /// pixels.
    ///
    /// They are in sRGB, with the orientation applied. Of an animation, the first frame is used. A
    /// smaller image keeps its size.
    ///
    /// - Parameters:
    ///   - file: The bytes.
    ///   - format: The format that the first bytes indicate.
    ///   - side: The maximum length of both sides in pixels.
    ///   - owner: The account whose turn it takes.
    /// - Returns: The pixels.
    /// - Throws: ``ImageFailure``.
    package func pixels(
        of file: [UInt8],
        as format: ImageFormat,
        side: Int,
        for owner: LongWork.Owner
    ) async throws(ImageFailure) -> ImagePixels {
        let image = try await scale(file, format, for: owner) { input, bounds, stop, output in
            sanguine_pixels(
                input.baseAddress,
                input.count,
                format.code,
                Int32(clamping: side),
                bounds,
                stop,
                &output
            )
        }
        return ImagePixels(width: image.facts.width, height: image.facts.height, rgba: image.bytes)
    }

    /// Estimates the memory in bytes that an image needs while it is decoded and encoded.
    ///
    /// The figures per pixel were measured with libvips 8.14, and rounded up.
    static func memory(of facts: ImageFacts, _ format: ImageFormat, isScaled: Bool) -> Int {
        let perPixel =
            switch format {
            // Lines, or the coefficients of a progressive image.
            case .jpeg: facts.isWhole ? 6 : 0
            case .png: facts.isWhole ? 8 : 0
            // The encoder keeps several copies.
            case .webp: isScaled ? 4 : 13
            case .heic: 10
            }
        let pixels = facts.width * facts.height
        // A larger copy for the rotation is a temporary file.
        let rotated = isScaled || facts.orientation == 1 ? 0 : min(64 << 20, 3 * pixels)
        return (12 << 20) + perPixel * pixels + rotated
    }

    private typealias Encoding =
        @Sendable (
            UnsafeRawBufferPointer, sanguine_bounds, OpaquePointer, inout sanguine_output
        ) -> sanguine_status

    /// Scales the first frame of an image.
    private func scale(
        _ file: [UInt8],
        _ format: ImageFormat,
        for owner: LongWork.Owner,
        _ scaling: Encoding
    ) async throws(ImageFailure) -> EncodedImage {
        var facts = try await facts(of: file, as: format, for: owner)
        facts.frames = 1
        guard limits.allow(facts) else { throw .tooLarge(facts) }
        let bytes = Self.memory(of: facts, format, isScaled: true)
        return try await encode(file, facts, bytes, for: owner, scaling)
    }

    private func encode(
        _ file: [UInt8],
        _ facts: ImageFacts,
        _ bytes: Int,
        for owner: LongWork.Owner,
        _ encoding: Encoding
    ) async throws(ImageFailure) -> EncodedImage {
        let stop = Stop()
        let result = await withTaskCancellationHandler {
            await Result { () async throws(ImageFailure) in
                try await memory.perform(bytes) { () async throws(ImageFailure) in
                    try await threads.perform(for: owner) { () throws(ImageFailure) in
                        var output = sanguine_output()
                        let status = file.withUnsafeBytes {
                            encoding($0, limits.bounds, stop.pointer, &output)
                        }
                        defer { sanguine_free(&output) }
                        try Self.check(status, facts)
                        return try EncodedImage(output)
                    }
                }
            }
        } onCancel: {
            stop.set()
        }
        return try result.get()
    }

    private static func check(
        _ status: sanguine_status,
        _ facts: @autoclosure () -> ImageFacts
    ) throws(ImageFailure) {
        switch status {
        case SANGUINE_DONE: return
        case SANGUINE_UNSUPPORTED: throw .unsupported
        case SANGUINE_TOO_LARGE: throw .tooLarge(facts())
        case SANGUINE_STOPPED: throw .cancelled
        case SANGUINE_TIMED_OUT: throw .timeout
        case SANGUINE_UNAVAILABLE: throw .unavailable
        default: throw .unreadable
        }
    }
}

extension VipsImages {
    private static func check(
        _ status: sanguine_status,
        _ facts: sanguine_facts
    ) throws(ImageFailure) {
        try check(status, ImageFacts(facts))
    }
}

extension EncodedImage {
    fileprivate init(_ output: sanguine_output) throws(ImageFailure) {
        guard let start = output.bytes, let format = ImageFormat(output.format) else {
            throw .unreadable
        }
        bytes = Array(UnsafeRawBufferPointer(start: start, count: output.count))
        self.format = format
        facts = ImageFacts(output.facts)
    }
}

/// Ends a call to libvips.
// The pointer is constant, and what it points to is atomic.
private final class Stop: @unchecked Sendable {
    let pointer: OpaquePointer

    init() {
        guard let pointer = sanguine_stop_new() else { preconditionFailure("Out of memory.") }
        self.pointer = pointer
    }

    deinit { sanguine_stop_free(pointer) }

    func set() { sanguine_stop_set(pointer) }
}
