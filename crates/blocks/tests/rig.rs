use crashpoint_blocks::*;
use std::fs;
use std::time::Instant;
#[test]
fn smoke() {
    for fs_ in FileSystem::ALL {
        let t = Instant::now();
        Lab::run(|lab| {
            let device = fs_.new_device(lab, 0)?;
            println!("{} made {:?}", fs_.name(), t.elapsed());
            let m = fs_.mount(lab, &device, "")?;
            println!("mounted {:?}", t.elapsed());
            device.record();
            fs::write(m.folder().join("a"), "hello").unwrap();
            fs::File::open(m.folder().join("a"))
                .unwrap()
                .sync_all()
                .unwrap();
            println!("sync {:?}", t.elapsed());
            let r = device.stop();
            println!("writes {} flushes {}", r.writes(), r.flushes());
            let d = device.disk();
            m.unmount()?;
            println!("unmount {:?}", t.elapsed());
            for _ in 0..20 {
                let t = Instant::now();
                device.load(d.clone())?;
                let l = t.elapsed();
                let m = fs_.mount(lab, &device, "")?;
                let mm = t.elapsed();
                assert_eq!(fs::read_to_string(m.folder().join("a")).unwrap(), "hello");
                let rr = t.elapsed();
                m.unmount()?;
                println!(
                    "load {l:?} mount {mm:?} read {rr:?} umount {:?}",
                    t.elapsed()
                );
            }
            Ok(())
        })
        .unwrap();
    }
}
