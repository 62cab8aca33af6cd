/// Tracks of a movie (ISO/IEC 14496-12, section 8) that are neither pictures nor sound.
///
/// Cameras, drones and phones record places in tracks of timed metadata, and some in subtitles.
enum MovieTracks {
    /// The types of the tracks that are kept.
    private static let kept: Set = ["vide", "soun", "auxv", "pict"]

    /// Overwrites all other tracks and their samples.
    ///
    /// - Parameters:
    ///   - movie: The `moov` box.
    ///   - top: The boxes of the file.
    ///   - file: The file.
    /// - Returns: `false` if the samples of such a track cannot be found.
    static func wipeOthers(in movie: FileBox, among top: [FileBox], of file: inout [UInt8]) -> Bool
    {
        guard let boxes = file.children(in: movie.content) else { return false }
        var removed: Set<Int> = []
        for track in boxes where track.type == "trak" {
            guard let media = file.child("mdia", of: track),
                let handler = file.child("hdlr", of: media)
            else {
                file.free(track)
                continue
            }
            let type = file.text(at: handler.content.lowerBound + 8) ?? ""
            guard !kept.contains(type) else { continue }
            guard let id = id(of: track, in: file), let samples = samples(of: media, in: file)
            else { return false }
            let data = top.filter { $0.type == "mdat" }
            for range in samples {
                guard data.contains(where: { $0.content.contains(range) }) else { return false }
                file.wipe(range)
            }
            file.free(track)
            removed.insert(id)
        }
        guard !removed.isEmpty else { return true }
        // The samples of a fragment are not searched.
        return !top.contains { box in
            box.type == "moof" && fragments(of: box, in: file).contains(where: removed.contains)
        }
    }

    private static func id(of track: FileBox, in file: [UInt8]) -> Int? {
        guard let header = file.child("tkhd", of: track) else { return nil }
        let start = header.content.lowerBound
        guard let version = file.big(start, 1) else { return nil }
        return file.big(start + (version == 0 ? 12 : 20), 4)
    }

    /// The ids of the tracks that a `moof` box continues.
    private static func fragments(of box: FileBox, in file: [UInt8]) -> [Int] {
        file.boxes(in: box.content).filter { $0.type == "traf" }.compactMap { part in
            file.child("tfhd", of: part).flatMap { file.big($0.content.lowerBound + 4, 4) }
        }
    }

    /// The ranges of the file that contain a track's samples; `nil` if the tables are not valid.
    private static func samples(of media: FileBox, in file: [UInt8]) -> [Range<Int>]? {
        guard let information = file.child("minf", of: media),
            let tables = file.child("stbl", of: information),
            let sizes = sizes(in: tables, of: file),
            let chunks = chunks(in: tables, of: file),
            let runs = runs(in: tables, of: file)
        else { return nil }
        var ranges: [Range<Int>] = []
        var (sample, run) = (0, 0)
        for (number, start) in chunks.enumerated() where sample < sizes.count {
            while run + 1 < runs.count, runs[run + 1].first <= number + 1 { run += 1 }
            guard run < runs.count, runs[run].first <= number + 1 else { return nil }
            let next = min(sizes.count, sample + min(runs[run].count, sizes.count))
            let length = sizes[sample..<next].reduce(0, +)
            guard start <= file.count, length <= file.count - start else { return nil }
            ranges.append(start..<start + length)
            sample = next
        }
        return sample == sizes.count ? ranges : nil
    }

    /// The sizes of all samples.
    private static func sizes(in tables: FileBox, of file: [UInt8]) -> [Int]? {
        guard let box = file.child("stsz", of: tables) else { return nil }
        let start = box.content.lowerBound
        guard let size = file.big(start + 4, 4), let count = file.big(start + 8, 4) else {
            return nil
        }
        guard size == 0 else {
            // The file cannot have more samples than bytes.
            return count <= file.count / size ? [Int](repeating: size, count: count) : nil
        }
        guard count <= (box.content.count - 12) / 4 else { return nil }
        return (0..<count).compactMap { file.big(start + 12 + 4 * $0, 4) }
    }

    /// The offsets of all chunks.
    private static func chunks(in tables: FileBox, of file: [UInt8]) -> [Int]? {
        let (short, long) = (file.child("stco", of: tables), file.child("co64", of: tables))
        guard let box = short ?? long else { return nil }
        let width = short == nil ? 8 : 4
        let start = box.content.lowerBound
        guard let count = file.big(start + 4, 4), count <= (box.content.count - 8) / width
        else { return nil }
        let offsets = (0..<count).compactMap { file.big(start + 8 + width * $0, width) }
        return offsets.count == count ? offsets : nil
    }

    /// The first chunk of each run, counted from 1, and the number of samples in its chunks.
    private static func runs(
        in tables: FileBox,
        of file: [UInt8]
    ) -> [(first: Int, count: Int)]? {
        guard let box = file.child("stsc", of: tables) else { return nil }
        let start = box.content.lowerBound
        guard let count = file.big(start + 4, 4), count <= (box.content.count - 8) / 12
        else { return nil }
        return (0..<count).compactMap { number in
            let entry = start + 8 + 12 * number
            guard let first = file.big(entry, 4), let samples = file.big(entry + 4, 4)
            else { return nil }
            return (first, samples)
        }
    }
}

extension [UInt8] {
    /// The first box of a type in another one.
    fileprivate func child(_ type: String, of box: FileBox) -> FileBox? {
        boxes(in: box.content).first { $0.type == type }
    }
}

extension Range<Int> {
    fileprivate func contains(_ other: Range<Int>) -> Bool {
        lowerBound <= other.lowerBound && other.upperBound <= upperBound
    }
}
