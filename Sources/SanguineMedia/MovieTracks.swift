/// Tracks of a movie (ISO/IEC 14496-12, section 8) that are neither pictures nor sound.
///
/// Cameras, drones and phones record places in tracks of timed metadata, and some in subtitles.
struct MovieTracks {
    /// The types of the tracks that are kept.
    private static let kept: Set = ["vide", "soun", "auxv", "pict"]

    /// The ranges of the file that may contain samples, in order.
    private let data: [Range<Int>]
    /// The bytes that the samples of all removed tracks may still have.
    ///
    /// Samples do not overlap, so a file whose samples are longer than the file is not valid. Such
    /// a file could otherwise take a time of the square of its size.
    private var rest: Int
    /// The ids of the removed tracks.
    private var removed: Set<Int> = []

    /// - Parameters:
    ///   - top: The boxes of the file.
    ///   - bytes: The size of the file.
    init(of top: [FileBox], bytes: Int) {
        data = top.filter { $0.type == "mdat" }.map(\.content)
        rest = bytes
    }

    /// Overwrites all other tracks and their samples.
    ///
    /// - Parameters:
    ///   - movie: The `moov` box.
    ///   - file: The file.
    /// - Returns: `false` if the samples of such a track cannot be found.
    mutating func wipeOthers(in movie: FileBox, of file: inout [UInt8]) -> Bool {
        guard let boxes = file.children(in: movie.content) else { return false }
        for track in boxes where track.type == "trak" {
            guard let media = file.box("mdia", in: track.content),
                let handler = file.box("hdlr", in: media.content)
            else {
                file.free(track)
                continue
            }
            let type = file.text(at: handler.content.lowerBound + 8) ?? ""
            guard !Self.kept.contains(type) else { continue }
            guard let id = Self.id(of: track, in: file),
                let table = SampleTable(of: media, in: file), wipe(table, of: &file)
            else { return false }
            file.free(track)
            removed.insert(id)
        }
        return true
    }

    /// Whether a fragment continues a removed track: the samples of a fragment are not searched.
    func areContinued(in top: [FileBox], of file: [UInt8]) -> Bool {
        guard !removed.isEmpty else { return false }
        return top.contains { box in
            box.type == "moof"
                && file.boxes(in: box.content).contains { part in
                    guard part.type == "traf", let header = file.box("tfhd", in: part.content),
                        let id = file.big(header.content.lowerBound + 4, 4)
                    else { return false }
                    return removed.contains(id)
                }
        }
    }

    private static func id(of track: FileBox, in file: [UInt8]) -> Int? {
        guard let header = file.box("tkhd", in: track.content) else { return nil }
        let start = header.content.lowerBound
        guard let version = file.big(start, 1) else { return nil }
        return file.big(start + (version == 0 ? 12 : 20), 4)
    }

    /// Overwrites the samples of a track; returns `false` if the table is not valid.
    private mutating func wipe(_ table: SampleTable, of file: inout [UInt8]) -> Bool {
        var (sample, run) = (0, 0)
        for number in 0..<table.chunks where sample < table.samples {
            while run + 1 < table.runs, let next = table.run(run + 1, in: file),
                next.first <= number + 1
            {
                run += 1
            }
            guard run < table.runs, let current = table.run(run, in: file),
                current.first <= number + 1, let start = table.chunk(number, in: file)
            else { return false }
            let next = min(table.samples, sample + min(current.count, table.samples))
            guard let length = table.length(of: sample..<next, in: file), length <= rest,
                start <= file.count, length <= file.count - start,
                isData(start..<start + length)
            else { return false }
            rest -= length
            file.wipe(start..<start + length)
            sample = next
        }
        return sample == table.samples
    }

    /// Whether a range is within the data of the file.
    private func isData(_ range: Range<Int>) -> Bool {
        var (low, high) = (0, data.count)
        while low < high {
            let middle = (low + high) / 2
            let isBefore = data[middle].lowerBound <= range.lowerBound
            (low, high) = isBefore ? (middle + 1, high) : (low, middle)
        }
        return low > 0 && range.upperBound <= data[low - 1].upperBound
    }
}

/// The places and sizes of a track's samples, which are read when they are needed.
private struct SampleTable {
    /// The number of samples.
    let samples: Int
    /// The number of chunks, in which samples follow each other.
    let chunks: Int
    /// The number of runs of chunks that have the same number of samples.
    let runs: Int
    /// The size of every sample; 0 if they differ.
    private let size: Int
    private let starts: (sizes: Int, chunks: Int, runs: Int)
    /// The bytes of a chunk's offset.
    private let width: Int

    /// Returns `nil` if a table is absent, or longer than its box.
    init?(of media: FileBox, in file: [UInt8]) {
        guard let information = file.box("minf", in: media.content),
            let tables = file.box("stbl", in: information.content)
        else { return nil }
        let boxes = file.boxes(in: tables.content)
        func box(_ type: String) -> Range<Int>? { boxes.first { $0.type == type }?.content }
        let short = box("stco")
        guard let sizes = box("stsz"), let places = short ?? box("co64"), let lists = box("stsc"),
            let size = file.big(sizes.lowerBound + 4, 4),
            let samples = file.big(sizes.lowerBound + 8, 4),
            let chunks = file.big(places.lowerBound + 4, 4),
            let runs = file.big(lists.lowerBound + 4, 4)
        else { return nil }
        width = short == nil ? 8 : 4
        // The file cannot have more samples than bytes.
        guard samples <= (size > 0 ? file.count / size : (sizes.count - 12) / 4),
            chunks <= (places.count - 8) / width, runs <= (lists.count - 8) / 12
        else { return nil }
        (self.samples, self.chunks, self.runs, self.size) = (samples, chunks, runs, size)
        starts = (sizes.lowerBound + 12, places.lowerBound + 8, lists.lowerBound + 8)
    }

    /// The offset of a chunk in the file.
    func chunk(_ number: Int, in file: [UInt8]) -> Int? {
        file.big(starts.chunks + width * number, width)
    }

    /// The first chunk of a run, counted from 1, and the number of samples in its chunks.
    func run(_ number: Int, in file: [UInt8]) -> (first: Int, count: Int)? {
        let entry = starts.runs + 12 * number
        guard let first = file.big(entry, 4), let count = file.big(entry + 4, 4) else { return nil }
        return (first, count)
    }

    /// The number of bytes of some samples.
    func length(of samples: Range<Int>, in file: [UInt8]) -> Int? {
        guard size == 0 else { return size * samples.count }
        var sum = 0
        for sample in samples {
            guard let size = file.big(starts.sizes + 4 * sample, 4) else { return nil }
            sum += size
        }
        return sum
    }
}
