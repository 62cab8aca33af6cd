import SanguineImages
import TestSupport

extension SampleImages {
    /// Returns the levels of the bands at a position of an image.
    func color(_ image: EncodedImage, x: Int, y: Int) async throws -> [Double] {
        let name = "point.\(image.format == .jpeg ? "jpg" : image.format == .png ? "png" : "webp")"
        try write(image.bytes, name)
        let text = try await run("vips", "getpoint", path(name), "\(x)", "\(y)")
        return text.split(whereSeparator: { " \n".contains($0) }).compactMap { Double($0) }
    }

    /// Returns what exiftool says of an image.
    func tags(_ image: EncodedImage) async throws -> String {
        try write(image.bytes, "tags.bin")
        return try await run("exiftool", "-a", "-G1", "-s", path("tags.bin"))
    }
}
